"""Chat templates with everything that transformers gives them, equal to Jinja2's bytes."""

import datetime
import importlib.util
import json
import typing
import unittest

import bantam
from bantam._schema import schema_of
from common import GREEDY, ROOT, SHARED, Folder, chat_model, model

try:
    import jinja2
except ImportError:
    jinja2 = None

TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": {
    "type": "object", "properties": {"town": {"type": "string", "description": "Wo? \u00e4 <b>"}}, "required": ["town"]}}}]
CALL = {"id": "call123456", "type": "function", "function": {"name": "weather", "arguments": {"town": "Ulm"}}}
SAID_AS_TEXT = {"id": "call123456", "type": "function", "function": {"name": "weather", "arguments": json.dumps({"town": "Ulm"})}}
USER = {"role": "user", "content": "How is it in Ulm?"}
CONVERSATIONS = {
    "plain": ([USER], {}),
    "pairs": ([("system", "Be brief."), ("user", "Hi \u2603")], {}),
    "tools": ([USER], {"tools": TOOLS}),
    "a call with no content": ([USER, {"role": "assistant", "content": None, "tool_calls": [CALL]},
                               {"role": "tool", "name": "weather", "tool_call_id": "call123456", "content": "Rain"}], {"tools": TOOLS}),
    "a call as text": ([USER, {"role": "assistant", "content": "", "tool_calls": [SAID_AS_TEXT]},
                       {"role": "tool", "name": "weather", "tool_call_id": "call123456", "content": "Rain"}], {"tools": TOOLS}),
    "parts": ([{"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "two"}]}], {}),
    "no thinking": ([USER], {"enable_thinking": False}),
    "thinking": ([USER, {"role": "assistant", "reasoning_content": "Hm.", "content": "Fine."}, USER], {"enable_thinking": True}),
    "documents": ([USER], {"documents": [{"title": "T", "text": "It rains."}]}),
    "without a turn to open": ([USER, {"role": "assistant", "content": "Fine."}], {"add_generation_prompt": False}),
    "variables": ([USER], {"custom_tools": None, "date_string": "1 Jan 2026", "xml_tools": [], "bos_token": "<my bos>"}),
}


def oracle():
    path = ROOT / "tests" / "text" / "chat_template_oracle.py"
    spec = importlib.util.spec_from_file_location("oracle", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    environment = module.environment()
    environment.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)
    return environment


class Templates(Folder):
    @unittest.skipIf(jinja2 is None, "jinja2 (python3-jinja2) is not installed")
    @unittest.skipUnless((SHARED / "chat-templates").is_dir(), "no chat templates under BANTAM_SHARED_DATA")
    def test_equal_to_jinja2(self):
        environment, t = oracle(), model.tokenizer
        rendered = failed = 0
        for path in sorted((SHARED / "chat-templates").glob("*.jinja")):
            source = path.read_text()
            compiled = environment.from_string(source)
            for name, (messages, options) in CONVERSATIONS.items():
                with self.subTest(template=path.name, conversation=name):
                    # What transformers' apply_chat_template hands over.
                    context = {"messages": bantam._chat.messages_of(messages), "tools": None, "documents": None, "add_generation_prompt": True,
                               "bos_token": t.token(t.bos), "eos_token": t.token(t.eos), **options}
                    try:
                        expected = compiled.render(**context)
                    except Exception as error:  # whatever Jinja2 refuses
                        failed += 1
                        with self.assertRaises(bantam.Error, msg=repr(error)):
                            t.apply_chat_template(messages, chat_template=source, **options)
                        continue
                    rendered += 1
                    self.assertEqual(t.apply_chat_template(messages, chat_template=source, **options), expected)
        self.assertGreater(rendered, 8 * failed / 2)

    def test_arguments(self):
        t = model.tokenizer
        source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
        messages = [{"role": "user", "content": "Hi"}]
        text = t.apply_chat_template(messages, chat_template=source)
        self.assertEqual(text, "<user>Hi<assistant>")
        self.assertEqual(t.apply_chat_template(messages, chat_template=source, tokenize=True), t.encode(text, add_special=False, parse_special=True))
        begun = [*messages, {"role": "assistant", "content": " Well, "}]
        self.assertEqual(t.apply_chat_template(begun, chat_template=source, add_generation_prompt=False, continue_final_message=True),
                         "<user>Hi<assistant> Well, ")
        trimmed = source.replace("m.content", "m.content | trim")
        self.assertEqual(t.apply_chat_template(begun, chat_template=trimmed + "END", add_generation_prompt=False, continue_final_message=True),
                         "<user>Hi<assistant>Well,")
        with self.assertRaisesRegex(bantam.Unsupported, "chat template"):
            t.apply_chat_template(messages)
        with self.assertRaisesRegex(TypeError, "^tools: expected what JSON can say"):
            t.apply_chat_template(messages, chat_template=source, tools=[{1, 2}])
        with self.assertRaisesRegex(bantam.InvalidArgument, "^x: expected what JSON can say"):
            t.apply_chat_template(messages, chat_template=source, x=float("nan"))
        with self.assertRaisesRegex(bantam.InvalidArgument, "continue_final_message"):
            t.apply_chat_template([{"role": "user", "content": None}], chat_template=source, continue_final_message=True)
        with self.assertRaisesRegex(bantam.Error, "no such role"):
            t.apply_chat_template(messages, chat_template="{{ raise_exception('no such role') }}")

    def test_functions_as_tools(self):
        def weather(town: str, days: int = 1, unit: typing.Literal["C", "F"] = "C", tags: typing.Optional[typing.List[str]] = None) -> float:
            """
            Tells the weather.

            Args:
                town: The name of the
                    town.
                days: How many (choices: [1, 3])
                unit: Of temperatures
                tags: Whatever

            Returns:
                A temperature
            """

        expected = {"type": "function", "function": {
            "name": "weather", "description": "Tells the weather.", "parameters": {
                "type": "object", "properties": {
                    "town": {"type": "string", "description": "The name of the town."},
                    "days": {"type": "integer", "enum": [1, 3], "description": "How many"},
                    "unit": {"type": "string", "enum": ["C", "F"], "description": "Of temperatures"},
                    "tags": {"type": "array", "items": {"type": "string"}, "nullable": True, "description": "Whatever"}},
                "required": ["town"]},
            "return": {"type": "number", "description": "A temperature"}}}
        self.assertEqual(schema_of(weather), expected)
        self.assertEqual(json.loads(model.tokenizer.apply_chat_template([], tools=[weather], chat_template="{{ tools[0] | tojson }}")), expected)
        for function, says in ((lambda x: x, "docstring"), (len, "docstring|hint")):
            with self.assertRaisesRegex((ValueError, TypeError), says):
                schema_of(function)


HERMES = "{% for m in messages %}{{ m.content }}\n{% endfor %}{# <tool_call> #}"
WRITTEN = ('<think>\nHm \u2603\n</think>\n\nLooking.\n<tool_call>\n{"name": "weather", "arguments": {"town": "Ulm \u00e4"}}\n</tool_call>'
           '\n<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>')


class Replies(Folder):
    def test_messages(self):
        message = bantam.parse_reply(WRITTEN, "hermes", tools=TOOLS)
        self.assertEqual((message["role"], message["content"], message["reasoning_content"]), ("assistant", "Looking.", "Hm \u2603"))
        self.assertEqual([call["function"] for call in message["tool_calls"]],
                         [{"name": "weather", "arguments": '{"town": "Ulm \u00e4"}'}, {"name": "weather", "arguments": "{}"}])
        ids = [call["id"] for call in message["tool_calls"]]
        self.assertEqual([len(id) for id in ids], [9, 9])
        self.assertEqual(len(set(ids)), 2)
        self.assertEqual(bantam.parse_reply("Hi\n", "hermes"), {"role": "assistant", "content": "Hi\n"})
        self.assertIsNone(bantam.parse_reply('[TOOL_CALLS]weather[ARGS]{"town": "Ulm"}', "mistral")["content"])
        self.assertEqual(bantam.parse_reply("<tool_call>{", "hermes")["content"], "<tool_call>{")
        self.assertEqual(bantam.parse_reply("Hm.</think>Hi", "hermes", prompt="<think>\n"),
                         {"role": "assistant", "content": "Hi", "reasoning_content": "Hm."})
        self.assertEqual(bantam.parse_reply(WRITTEN.split("</think>")[1], "hermes", calls=False)["content"], WRITTEN.split("</think>")[1])
        with self.assertRaisesRegex(bantam.InvalidArgument, "reply form: expected one of"):
            bantam.ReplyParser("nothing")

    def test_pieces(self):
        parser = bantam.ReplyParser("hermes", tools=TOOLS)
        events = [event for piece in WRITTEN for event in parser.feed(piece)] + parser.finish()
        self.assertEqual("".join(event.raw for event in events), WRITTEN)
        self.assertEqual("".join(event.text for event in events if event.kind == "arguments" and event.call == 0), '{"town": "Ulm \u00e4"}')
        self.assertEqual([event.text for event in events if event.kind == "call"], ["weather", "weather"])

    def test_of_a_model(self):
        """A model that is made to write a reply gives its parts."""
        path = chat_model(self.folder / "hermes.gguf", HERMES)
        llama = bantam.Llama(path, n_ctx=512)
        vocabulary = llama.model.tokenizer
        self.assertEqual(vocabulary.reply_form, "hermes")
        self.assertEqual(vocabulary.parse_reply(WRITTEN)["content"], "Looking.")
        ids = vocabulary.encode(WRITTEN, add_special=False)
        expected = bantam.parse_reply(vocabulary.decode(ids), "hermes")

        def made(**options):
            left = iter(ids)

            def force(_, scores):
                scores[:] = -float("inf")
                scores[next(left, llama.token_eos())] = 0
                return scores

            return llama.create_chat_completion([USER], max_tokens=400, temperature=0, logits_processor=force, **options)

        choice = made(tools=TOOLS)["choices"][0]
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(choice["message"]["reasoning_content"], expected["reasoning_content"])
        self.assertEqual([call["function"] for call in choice["message"]["tool_calls"]], [call["function"] for call in expected["tool_calls"]])
        calls, content, thought = {}, "", ""
        for chunk in made(tools=TOOLS, stream=True):
            delta, reason = chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]
            content += delta.get("content") or ""
            thought += delta.get("reasoning_content", "")
            for call in delta.get("tool_calls", []):
                known = calls.setdefault(call["index"], {"name": "", "arguments": ""})
                known["name"] += call["function"].get("name", "")
                known["arguments"] += call["function"]["arguments"]
        self.assertEqual((reason, content, thought), ("tool_calls", expected["content"], expected["reasoning_content"]))
        self.assertEqual(list(calls.values()), [call["function"] for call in expected["tool_calls"]])
        # Nobody offered tools.
        choice = made()["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertNotIn("tool_calls", choice["message"])
        self.assertIn("<tool_call>", choice["message"]["content"])


class Chats(Folder):
    def test_sessions_remember(self):
        source = "{% for t in tools or [] %}T{% endfor %}{% for m in messages %}[{{ m.role }}] {{ m.content }}" \
                 "{{ m.tool_calls | tojson if m.tool_calls else '' }}\n{% endfor %}[assistant] {{ '' if think | default(true) else 'quick' }}"
        chatty = bantam.load(chat_model(self.folder / "chat", source))
        session = bantam.Session(chatty)
        first = session.chat([{"role": "user", "content": "Hello"}], max_tokens=5, **GREEDY).text()
        fork = session.fork()
        again = session.chat([{"role": "user", "content": "More"}], max_tokens=5, **GREEDY)
        self.assertLess(again.stats.prompt_tokens, len(session.tokens) - 5)  # what was read is not read again
        again = again.text()
        history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": first}, {"role": "user", "content": "More"}]
        fresh = bantam.Session(chatty)
        self.assertEqual(fresh.chat(history, max_tokens=5, **GREEDY).text(), again)
        self.assertEqual(fork.chat([("user", "More")], max_tokens=5, **GREEDY).text(), again)
        # The reply in other words, with the call that it was.
        session.chat([{"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "content": "Rain"}], max_tokens=1,
                     tools=TOOLS, chat_template_kwargs={"think": False}, **GREEDY).text()
        prompt = chatty.tokenizer.decode(session.tokens[:-1])
        self.assertTrue(prompt.startswith("T[user] Hello"), prompt)
        self.assertIn('[assistant] None[{"id": "call123456"', prompt)
        self.assertTrue(prompt.endswith("[tool] Rain\n[assistant] quick"), prompt)
        session.clear()
        self.assertEqual(session.chat([{"role": "user", "content": "Hello"}], max_tokens=5, **GREEDY).text(), first)


if __name__ == "__main__":
    unittest.main()
