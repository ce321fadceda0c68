"""Llama, as programs written for llama-cpp-python use it."""

import inspect
import json
import os
import pickle
import unittest
from unittest import mock

import numpy as np

import bantam
from bantam.llama_cpp import (Llama, LlamaDiskCache, LlamaGrammar, LlamaPromptLookupDecoding, LlamaRAMCache, LlamaTokenizer,
                              LogitsProcessorList, MinTokensLogitsProcessor, StoppingCriteriaList)
from common import MODEL, Folder, chat_model


class LlamaClass(Folder):
    def setUp(self):
        super().setUp()
        self.llama = bantam.Llama(MODEL, n_ctx=256, n_threads=2, n_gpu_layers=-1, verbose=False, seed=1)

    def test_completion(self):
        made = self.llama("The captain", max_tokens=6, temperature=0, echo=True, logprobs=3)
        self.assertEqual(made["object"], "text_completion")
        choice = made["choices"][0]
        self.assertTrue(choice["text"].startswith("The captain"))
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(made["usage"]["completion_tokens"], 6)
        # The most probable token was taken, and its probability says so.
        for token, score, top in list(zip(*(choice["logprobs"][k] for k in ("tokens", "token_logprobs", "top_logprobs"))))[-6:]:
            self.assertAlmostEqual(score, max(top.values()))
            self.assertIn(token, top)

    def test_top_k_below_zero_is_off(self):
        texts = [self.llama.create_completion("Once", max_tokens=8, seed=7, top_k=k)["choices"][0]["text"] for k in (-1, 0)]
        self.assertEqual(texts[0], texts[1])

    def test_stream_is_the_whole(self):
        whole = self.llama.create_completion("Once", max_tokens=12, seed=7)["choices"][0]
        chunks = list(self.llama.create_completion("Once", max_tokens=12, seed=7, stream=True))
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), whole["text"])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], whole["finish_reason"])
        stopped = self.llama.create_completion("Once", max_tokens=12, seed=7, stop=whole["text"][3:6])["choices"][0]
        self.assertEqual(stopped["text"], whole["text"][:3])
        self.assertEqual(stopped["finish_reason"], "stop")

    def test_tokens(self):
        ids = self.llama.tokenize(b"Hello there")
        self.assertEqual(self.llama.detokenize(ids), b"Hello there")
        generator = self.llama.generate(ids, temp=0)
        tokens = [next(generator) for _ in range(4)]
        completion = self.llama.create_completion(ids, max_tokens=4, temperature=0)
        self.assertEqual(self.llama.detokenize(ids + tokens).decode(), "Hello there" + completion["choices"][0]["text"])
        self.assertEqual((self.llama.n_ctx(), self.llama.n_vocab()), (256, 4096))

    def test_processors_and_criteria(self):
        sea = self.llama.tokenize(" sea", add_bos=False)[-1]

        def only_sea(ids, scores):
            scores = np.full_like(scores, -np.inf)
            scores[sea] = 0
            return scores

        prompt = len(self.llama.tokenize("The"))
        made = self.llama("The", max_tokens=9, temperature=0, logits_processor=[only_sea], stopping_criteria=lambda ids, _: len(ids) == prompt + 3)
        self.assertEqual(made["usage"]["completion_tokens"], 3)
        self.assertEqual(made["choices"][0]["text"].count("sea"), 3)
        self.assertEqual(made["choices"][0]["finish_reason"], "stop")
        tokens = self.llama.generate(self.llama.tokenize("The"), logits_processor=only_sea, stopping_criteria=[lambda ids, _: len(ids) == prompt + 2])
        self.assertEqual(list(tokens), [sea, sea])
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            self.llama("The", max_tokens=9, logits_processor=lambda ids, scores: scores / (1 // 0))
        session = bantam.Session(self.llama.model, context=64)
        with self.assertRaisesRegex(bantam.InvalidArgument, "own callback"):
            session.generate("The", process=lambda ids, logits: bool(session.tokens))
        self.assertTrue(session.generate("", max_tokens=8, temperature=0))

    def test_embeddings(self):
        token_wise = bantam.Llama(MODEL, n_ctx=32, embedding=True)
        ids = token_wise.tokenize("The captain")
        each = np.array(token_wise.embed("The captain"))
        self.assertEqual(each.shape, (len(ids), token_wise.n_embd()))
        for pooling, expected in ((1, each.mean(axis=0)), (2, each[0]), (3, each[-1])):
            llama = bantam.Llama(MODEL, n_ctx=32, embedding=True, pooling_type=pooling)
            np.testing.assert_allclose(llama.embed("The captain"), expected, rtol=1e-5, atol=1e-6)
            self.assertAlmostEqual(np.linalg.norm(llama.embed("The captain", normalize=True)), 1, places=5)
            made = llama.create_embedding(["The captain", "sea " * 100])
            np.testing.assert_allclose(made["data"][0]["embedding"], expected, rtol=1e-5, atol=1e-6)
            self.assertEqual([d["index"] for d in made["data"]], [0, 1])
            self.assertEqual(made["usage"]["prompt_tokens"], len(ids) + 32)
        with self.assertRaises(bantam.InvalidArgument):
            token_wise.embed("sea " * 100, truncate=False)

    def test_what_is_not_there_is_said(self):
        for options in ({"tfs_z": 0.5},):
            with self.assertRaisesRegex(bantam.Unsupported, next(iter(options))):
                self.llama("x", **options)
        for options in ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, {"function_call": {"name": "f"}}):
            with self.assertRaisesRegex(bantam.Unsupported, next(iter(options))):
                self.llama.create_chat_completion([{"role": "user", "content": "x"}], **options)
        for options in ({"lora_base": "x"}, {"rope_freq_base": 1e6}, {"kv_overrides": {"a": 1}}, {"chat_format": "magic"},
                        {"draft_model": lambda ids: ids}, {"type_k": 8, "type_v": 1}, {"spm_infill": True}):
            with self.assertRaisesRegex(bantam.Unsupported, list(options)[-1]):
                bantam.Llama(MODEL, **options)
        with self.assertRaisesRegex(TypeError, "n_ctx"):
            bantam.Llama(MODEL, n_cxt=64)
        with self.assertRaisesRegex(bantam.InvalidArgument, "grammar: line 1"):
            LlamaGrammar.from_string("root ::= 'x'")
        with self.assertRaises(TypeError):
            self.llama("x", temprature=1)
        with self.assertRaises(bantam.Unsupported):
            bantam.Llama(MODEL, embedding=True, pooling_type=4)
        with self.assertRaises(bantam.InvalidArgument):
            self.llama.create_embedding("x")
        with self.assertRaises(bantam.Unsupported):
            self.llama.create_chat_completion([{"role": "user", "content": "x"}])

    def test_chat(self):
        gguf = self.folder / "chat.gguf"
        path = chat_model(gguf)
        llama = bantam.Llama(path, n_ctx=128)
        messages = [{"role": "user", "content": "Hello"}]
        made = llama.create_chat_completion(messages, max_tokens=5, temperature=0, logprobs=True, top_logprobs=2)
        self.assertEqual(made["object"], "chat.completion")
        self.assertEqual(made["choices"][0]["message"]["role"], "assistant")
        self.assertEqual(len(made["choices"][0]["logprobs"]["content"]), 5)
        chunks = list(llama.create_chat_completion(messages, max_tokens=5, temperature=0, stream=True))
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant"})
        text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
        self.assertEqual(text, made["choices"][0]["message"]["content"])
        with bantam.Session(bantam.load(path)) as session:
            self.assertEqual(session.chat(messages, max_tokens=5, temperature=0).text(), text)

    def test_signatures_are_llama_cpp_pythons(self):
        """The documented parameters, in their order (API reference of llama-cpp-python 0.3)."""
        sampling = "top_k top_p min_p typical_p temp repeat_penalty"
        penalties = "frequency_penalty presence_penalty tfs_z mirostat_mode"
        completion = ("prompt suffix max_tokens temperature top_p min_p typical_p logprobs echo stop frequency_penalty presence_penalty "
                      "repeat_penalty top_k stream seed tfs_z mirostat_mode mirostat_tau mirostat_eta model stopping_criteria "
                      "logits_processor grammar logit_bias")
        for name, parameters in {
            "sample": f"{sampling} {penalties} mirostat_eta mirostat_tau penalize_nl logits_processor grammar idx",
            "generate": f"tokens {sampling} reset {penalties} mirostat_tau mirostat_eta penalize_nl logits_processor stopping_criteria grammar",
            "create_completion": completion, "__call__": completion, "tokenize": "text add_bos special", "detokenize": "tokens prev_tokens special",
            "create_chat_completion": "messages functions function_call tools tool_choice temperature top_p top_k min_p typical_p stream stop seed "
                                      "response_format max_tokens presence_penalty frequency_penalty repeat_penalty tfs_z mirostat_mode "
                                      "mirostat_tau mirostat_eta model logits_processor grammar logit_bias logprobs top_logprobs",
            "embed": "input normalize truncate return_count", "create_embedding": "input model", "set_cache": "cache", "set_seed": "seed",
            "eval": "tokens", "load_state": "state", "save_state": "", "reset": "", "n_ctx": "", "n_embd": "", "n_vocab": "", "tokenizer": "",
            "token_eos": "", "token_bos": "", "token_nl": "", "pooling_type": "", "close": "", "longest_token_prefix": "a b",
            "logits_to_logprobs": "logits axis",
            "from_pretrained": "repo_id filename additional_files local_dir local_dir_use_symlinks cache_dir",
        }.items():
            with self.subTest(name):
                found = [p for p in inspect.signature(getattr(Llama, name)).parameters if p != "self"]
                self.assertEqual(found[:len(parameters.split())], parameters.split())
        every = dict(n_gpu_layers=-1, split_mode=1, main_gpu=0, tensor_split=None, vocab_only=False, use_mmap=True, use_mlock=False,
                     kv_overrides=None, seed=1, n_ctx=32, n_batch=512, n_ubatch=512, n_threads=1, n_threads_batch=None, rope_scaling_type=-1,
                     pooling_type=-1, attention_type=-1, rope_freq_base=0.0, rope_freq_scale=0.0, yarn_ext_factor=-1.0, yarn_attn_factor=1.0,
                     yarn_beta_fast=32.0, yarn_beta_slow=1.0, yarn_orig_ctx=0, logits_all=False, embedding=False, offload_kqv=True,
                     flash_attn=False, op_offload=None, swa_full=None, no_perf=False, last_n_tokens_size=64, lora_base=None, lora_scale=1.0,
                     lora_path=None, numa=False, chat_format=None, chat_handler=None, draft_model=None, tokenizer=None, type_k=None,
                     type_v=None, spm_infill=False, verbose=False)
        self.assertEqual(Llama(MODEL, **every).n_ctx(), 32)

    def test_sampling_by_hand(self):
        ids = self.llama.tokenize(b"The sea")
        self.llama.eval(ids)
        best = self.llama.sample(temp=0)
        self.assertEqual(best, int(self.llama.scores[-1].argmax()))
        self.assertEqual(self.llama.sample(top_k=1), best)
        self.assertEqual(self.llama.sample(temp=0, idx=0), int(self.llama.scores[0].argmax()))
        self.assertEqual(self.llama.scores.shape, (len(ids), self.llama.n_vocab()))
        np.testing.assert_array_equal(self.llama.scores, bantam.Session(self.llama.model).score(ids))
        self.llama.eval([best])
        np.testing.assert_array_equal(self.llama.scores, bantam.Session(self.llama.model).score([*ids, best]))
        self.assertEqual(list(self.llama.eval_tokens), [*ids, best])
        self.assertEqual(len(self.llama.eval_logits), len(ids) + 1)
        self.assertEqual(self.llama.input_ids.tolist(), [*ids, best])
        self.llama.n_tokens = 2
        self.assertEqual(self.llama.scores.shape[0], 2)
        values = self.llama.logits_to_logprobs(np.array([[1.0, 2.0], [3.0, -np.inf]]))
        np.testing.assert_allclose(np.exp(values).sum(axis=-1), 1, rtol=1e-6)
        self.assertEqual(self.llama.longest_token_prefix([1, 2, 3], [1, 2, 4]), 2)

    def test_generators_take_what_is_sent(self):
        ids, more = self.llama.tokenize(b"The"), self.llama.tokenize(b" captain", add_bos=False)
        generator = self.llama.generate(ids, temp=0)
        first = next(generator)
        second = generator.send(more)
        self.llama.reset()
        self.llama.eval([*ids, first, *more])
        self.assertEqual(second, self.llama.sample(temp=0))

    def test_grammars(self):
        for _ in range(2):
            text = self.llama("The", max_tokens=64, seed=5, grammar=LlamaGrammar.from_string('root ::= " cat" (" and cat"){2} "."'))["choices"][0]
            self.assertEqual((text["text"], text["finish_reason"]), (" cat and cat and cat.", "stop"))
        with self.assertRaisesRegex(TypeError, "grammar: expected a LlamaGrammar, found object"):
            self.llama("The", grammar=object())
        schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 10, "maximum": 99}, "ok": {"type": "boolean"}}, "required": ["age", "ok"]}
        grammar = LlamaGrammar.from_json_schema(json.dumps(schema))
        value = json.loads(self.llama("The", max_tokens=200, seed=2, temperature=1.5, grammar=grammar)["choices"][0]["text"])
        self.assertIn(value["age"], range(10, 100))
        session = bantam.Session(self.llama.model)
        value = json.loads(session.generate("The", max_tokens=200, seed=3, json_schema=schema, lookup=4))
        self.assertEqual(list(value), ["age", "ok"])
        self.assertEqual(session.generate("The", max_tokens=20, grammar='root ::= "x" "y"{2}'), "xyy")
        self.assertTrue(bantam.Grammar.json_object().matches('{"a": [1]}'))

    def test_mirostat(self):
        for mode in (1, 2):
            texts = [self.llama("The", max_tokens=24, seed=3, mirostat_mode=mode, mirostat_tau=tau)["choices"][0]["text"] for tau in (0.1, 8.0)]
            self.assertNotEqual(*texts)
            run = bantam.Session(self.llama.model).stream("The", max_tokens=24, seed=3, temperature=0.8, mirostat=mode, mirostat_tau=8.0)
            self.assertEqual(run.text(), texts[1])
        with self.assertRaisesRegex(bantam.InvalidArgument, "mirostat: expected 0 to 2, found 3"):
            self.llama("The", mirostat_mode=3)

    def test_seeds_and_the_whole_distribution(self):
        one = [self.llama("The", max_tokens=8)["choices"][0]["text"] for _ in range(2)]
        self.llama.set_seed(1)
        self.assertEqual([self.llama("The", max_tokens=8)["choices"][0]["text"] for _ in range(2)], one)
        whole = self.llama("The", max_tokens=8, temperature=-1, seed=2)["choices"][0]["text"]
        session = bantam.Session(self.llama.model)
        self.assertEqual(session.generate("The", max_tokens=8, temperature=1, top_k=0, top_p=1, min_p=0, seed=2), whole)

    def test_last_n_tokens_size_bounds_the_penalties(self):
        def text(size):
            llama = Llama(MODEL, n_ctx=128, seed=1, last_n_tokens_size=size)
            return llama("The sea", max_tokens=40, temperature=0, repeat_penalty=2.0)["choices"][0]["text"]

        self.assertNotEqual(text(1), text(64))

    def test_detokenize_gives_bytes(self):
        tokenizer = self.llama.tokenizer()
        self.assertIsInstance(tokenizer, LlamaTokenizer)
        for text in ("Grüße", "two  words", " space", "漢字 🌍"):
            ids = self.llama.tokenize(text.encode(), add_bos=False)
            self.assertEqual(self.llama.detokenize(ids), text.encode())
            self.assertEqual(b"".join(self.llama.detokenize([id], prev_tokens=ids[:i]) for i, id in enumerate(ids)), text.encode())
            self.assertEqual(tokenizer.decode(tokenizer.encode(text)), text)
        bos = self.llama.token_bos()
        self.assertEqual(self.llama.detokenize([bos]), b"")
        self.assertNotEqual(self.llama.detokenize([bos], special=True), b"")
        self.assertEqual(self.llama.detokenize([self.llama.token_nl()]), b"\n")
        self.assertEqual(LlamaTokenizer.from_ggml_file(MODEL).encode("abc"), tokenizer.encode("abc"))

    def test_states_and_caches(self):
        ids = self.llama.tokenize(b"In the morning the captain")
        self.llama.eval(ids)
        expected = [next(g) for g in [self.llama.generate(ids, temp=0)] for _ in range(5)]
        self.llama.reset()
        self.llama.eval(ids)
        state = self.llama.save_state()
        self.llama.reset()
        self.assertEqual(self.llama.n_tokens, 0)
        for one in (state, pickle.loads(pickle.dumps(state))):
            self.llama.load_state(one)
            self.assertEqual(self.llama.n_tokens, len(ids))
            self.assertEqual([next(g) for g in [self.llama.generate([], reset=False, temp=0)] for _ in range(1)], expected[:1])

    def test_caches(self):
        for cache in (LlamaRAMCache(capacity_bytes=1 << 26), LlamaDiskCache(self.folder / "cache", capacity_bytes=1 << 26)):
            with self.subTest(type(cache).__name__):
                self.assertNotIn([1, 2], cache)
                with self.assertRaises(KeyError):
                    cache[[1, 2]]
                self.llama.set_cache(cache)
                whole = self.llama("In the morning the captain", max_tokens=5, temperature=0)["choices"][0]["text"]
                self.llama.reset()
                ids = self.llama.tokenize(b"In the morning the captain")
                self.assertIn(ids, cache)
                self.assertEqual(cache[ids].input_ids[:len(ids)].tolist(), ids)
                self.assertGreater(cache.cache_size, 0)
                with mock.patch.object(Llama, "load_state", autospec=True, side_effect=Llama.load_state) as loaded:
                    again = self.llama("In the morning the captain", max_tokens=5, temperature=0)["choices"][0]["text"]
                self.assertEqual((again, loaded.call_count), (whole, 1))
                cache.capacity_bytes = 0
                cache[[1]] = self.llama.save_state()
                self.assertEqual(cache.cache_size, 0)

    def test_draft_models_change_nothing(self):
        text = "the cat sat on the mat and the cat sat on"
        plain = self.llama(text, max_tokens=24, temperature=0)["choices"][0]["text"]
        draft = LlamaPromptLookupDecoding(num_pred_tokens=6)
        self.assertEqual(draft([1, 2, 3, 1, 2]).tolist(), [3, 1, 2])
        llama = Llama(MODEL, n_ctx=256, draft_model=draft)
        self.assertEqual(llama(text, max_tokens=24, temperature=0)["choices"][0]["text"], plain)

    def test_lists_and_minimum_lengths(self):
        eos = self.llama.token_eos()
        ends = [lambda ids, scores: scores + np.where(np.arange(len(scores)) == eos, 1000, 0).astype(np.float32)]
        short = self.llama("The", max_tokens=9, logits_processor=LogitsProcessorList(ends))
        self.assertEqual(short["usage"]["completion_tokens"], 0)
        longer = self.llama("The", max_tokens=9, logits_processor=LogitsProcessorList([*ends, MinTokensLogitsProcessor(4, eos)]))
        self.assertEqual(longer["usage"]["completion_tokens"], 4)
        stops = StoppingCriteriaList([lambda ids, _: len(ids) > 6])
        self.assertEqual(self.llama.n_tokens, len(self.llama.tokenize("The")) + 4)
        self.llama("The", max_tokens=30, stopping_criteria=stops, temperature=0)
        self.assertEqual(self.llama.n_tokens, 7)

    def test_suffix_follows_where_no_gap_can_be_filled(self):
        made = self.llama("The", suffix=" END", max_tokens=3, temperature=0)["choices"][0]["text"]
        self.assertEqual(made, self.llama("The", max_tokens=3, temperature=0)["choices"][0]["text"] + " END")
        chunks = self.llama("The", suffix=" END", max_tokens=3, temperature=0, stream=True)
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), made)
        with mock.patch("bantam._llama._INFILL", (("▁the", "▁sea", "▁and"),)):
            filled = self.llama("The", suffix=" END", max_tokens=3, temperature=0)
        find, encode = self.llama.model.tokenizer.find, self.llama.model.tokenizer.encode
        ids = [self.llama.token_bos(), find("▁the"), *encode("The", add_special=False), find("▁sea"), *encode(" END", add_special=False), find("▁and")]
        self.assertEqual(filled["usage"]["prompt_tokens"], len(ids))
        self.assertEqual(filled["choices"][0]["text"], self.llama(ids, max_tokens=3, temperature=0)["choices"][0]["text"])

    def test_echo_with_log_probabilities(self):
        choice = self.llama("The sea was", max_tokens=2, echo=True, logprobs=2, temperature=0)["choices"][0]
        found = choice["logprobs"]
        self.assertIsNone(found["token_logprobs"][0])
        self.assertEqual(len({len(found[name]) for name in ("tokens", "text_offset", "token_logprobs", "top_logprobs")}), 1)
        self.assertEqual(found["text_offset"][0], 0)
        ids = self.llama.tokenize("The sea was")
        rows = Llama.logits_to_logprobs(bantam.Session(self.llama.model).score(ids))
        shown = found["token_logprobs"][1:len(ids) - 1]
        np.testing.assert_allclose(shown, [rows[i, ids[i + 1]] for i in range(1, len(ids) - 1)], rtol=1e-5)

    def test_pickling(self):
        again = pickle.loads(pickle.dumps(self.llama))
        self.assertEqual(again.n_ctx(), 256)
        self.assertEqual(again("Once", max_tokens=4, temperature=0)["choices"], self.llama("Once", max_tokens=4, temperature=0)["choices"])

    def test_metadata_and_vocabulary_alone(self):
        self.assertEqual(self.llama.metadata["general.architecture"], "llama")
        self.assertEqual(self.llama.metadata["llama.embedding_length"], str(self.llama.n_embd()))
        bantam.compress_file(MODEL, self.folder / "m.gguf", format="q8_0", to="gguf")
        gguf = Llama(self.folder / "m.gguf", vocab_only=True)
        self.assertEqual(gguf.metadata["general.architecture"], "llama")
        self.assertEqual(gguf.metadata["llama.block_count"], "4")
        self.assertEqual(gguf.tokenize(b"Hello"), self.llama.tokenize(b"Hello"))
        self.assertEqual(gguf.n_vocab(), self.llama.n_vocab())
        with self.assertRaisesRegex(bantam.InvalidArgument, "vocab_only"):
            gguf("x")

    def test_from_pretrained_reads_what_was_downloaded(self):
        snapshot = self.folder / "models--someone--books" / "snapshots" / "abc123"
        snapshot.parent.mkdir(parents=True)
        (self.folder / "models--someone--books" / "refs").mkdir()
        (self.folder / "models--someone--books" / "refs" / "main").write_text("abc123")
        os.symlink(MODEL, snapshot)
        native = self.folder / "local"
        native.mkdir()
        bantam.load(MODEL).save(native / "books-q8.bantam")
        llama = Llama.from_pretrained("someone/books", None, cache_dir=self.folder, n_ctx=32)
        self.assertEqual(llama.n_ctx(), 32)
        with mock.patch.dict(os.environ, {"HF_HUB_CACHE": str(self.folder)}):
            self.assertEqual(Llama.from_pretrained("someone/books", filename=None, vocab_only=True).n_vocab(), 4096)
        self.assertEqual(Llama.from_pretrained("x/y", "*q8*", local_dir=native).model_path, str(native / "books-q8.bantam"))
        with self.assertRaisesRegex(bantam.NotFound, "huggingface-cli download someone/other model.gguf"):
            Llama.from_pretrained("someone/other", "model.gguf", cache_dir=self.folder)
        with self.assertRaisesRegex(bantam.NotFound, "expected a file like"):
            Llama.from_pretrained("x/y", "*.gguf", local_dir=native)
        (native / "other-q8.bantam").write_text("x")
        with self.assertRaisesRegex(bantam.InvalidArgument, "expected one file"):
            Llama.from_pretrained("x/y", "*q8*", local_dir=native)

    def test_chats_with_tools_formats_and_handlers(self):
        template = "{% for t in tools or [] %}<{{ t.function.name }}>{% endfor %}{{ functions | default([]) | length }}" \
                   "{% for m in messages %}{{ m.content }}{% endfor %}{{ 'no' if not thinking | default(true) else '' }}"
        llama = Llama(chat_model(self.folder / "tools", template), n_ctx=128)
        user = [{"role": "user", "content": "Hi"}]
        tools = [{"type": "function", "function": {"name": "sea", "parameters": {}}}]

        def prompt(**options):
            llama.create_chat_completion(user, max_tokens=1, temperature=0, **options)
            return llama.model.tokenizer.decode(llama._session.tokens[:-1])

        self.assertEqual(prompt(tools=tools, tool_choice="auto"), "<sea>0Hi")
        self.assertEqual(prompt(tools=tools, tool_choice="none"), "0Hi")
        self.assertEqual(prompt(functions=[{"name": "f"}]), "1Hi")
        self.assertEqual(prompt(response_format={"type": "text"}, chat_template_kwargs={"thinking": False}), "0Hino")
        for name in bantam._llama_parts.CHAT_FORMATS:
            said = Llama(MODEL, n_ctx=128, chat_format=name).create_chat_completion([{"role": "system", "content": "S"}, *user], max_tokens=2)
            self.assertEqual(said["object"], "chat.completion")
        handled = Llama(MODEL, chat_handler=lambda *, llama, messages, **options: (messages, sorted(options)))
        self.assertIn("tool_choice", handled.create_chat_completion(user)[1])

    def test_tokenizer_of_somebody_else(self):
        class Upper(LlamaTokenizer):
            def tokenize(self, text, add_bos=True, special=False):
                return super().tokenize(text.upper(), add_bos, special)

        llama = Llama(MODEL, tokenizer=Upper(self.llama), n_ctx=64)
        self.assertEqual(llama.tokenize(b"abc"), self.llama.tokenize(b"ABC"))


if __name__ == "__main__":
    unittest.main()
