"""Token vocabularies of any size, made up by rule: every longer token is a shorter one and a letter."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def grow(start, letters, count):
    """`count` merges (left, right): each joins a token that exists by then with a letter; shorter tokens first."""
    merges = []
    level = [start, *letters]
    while True:
        grown = []
        for left in level:
            for letter in letters:
                if len(merges) == count:
                    return merges
                merges.append((left, letter))
                grown.append(left + letter)
        level = grown


def byte_letters():
    """The 256 characters that byte-level BPE writes for the bytes: printable Latin-1 as itself, the rest from U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = {byte: 256 + i for i, byte in enumerate(byte for byte in range(256) if byte not in printable)}
    return [chr(others.get(byte, byte)) for byte in range(256)]


class Vocabulary:
    """kind: "gpt2" (byte-level BPE) or "spm" (SentencePiece BPE). tokens, merges; ids of bos and eos."""

    def __init__(self, kind, size):
        if size < 512:
            raise ValueError(f"vocab is {size}, expected at least 512")
        self.kind = kind
        if kind == "gpt2":
            special = ["<|begin_of_text|>", "<|end_of_text|>"]
            base = byte_letters()
            self.merges = grow("Ġ", LETTERS, size - len(base) - len(special))
            self.tokens = base + [left + right for left, right in self.merges] + special
            self.bos, self.eos = size - 2, size - 1
            self.controls = [self.bos, self.eos]
            self.unknown = None
        else:
            base = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
            singles = ["\u2581", *LETTERS, *LETTERS.upper(), *"0123456789.,;:!?'\"()-"]
            self.merges = grow("\u2581", LETTERS, size - len(base) - len(singles))
            self.tokens = base + [left + right for left, right in self.merges] + singles
            self.unknown, self.bos, self.eos = 0, 1, 2
            self.controls = [1, 2]

    def gguf_types(self):
        """What each token is, in GGUF's numbers: 1 normal, 2 unknown, 3 control, 6 byte."""
        types = [1] * len(self.tokens)
        for id in self.controls:
            types[id] = 3
        if self.kind == "spm":
            types[self.unknown] = 2
            types[3:259] = [6] * 256
        return types

    def gguf_scores(self):
        """SentencePiece merges the pair whose result scores highest: earlier merges first."""
        return [0.0 if i < 259 else float(258 - i) for i in range(len(self.tokens))]

    def tokenizer_json(self, add_bos):
        """The same vocabulary as Hugging Face's tokenizer.json, as nested values."""
        ids = {token: id for id, token in enumerate(self.tokens)}
        special = self.controls if self.unknown is None else [self.unknown, *self.controls]
        spm = self.kind == "spm"
        bos = self.tokens[self.bos]
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        template = {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": bos, "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {bos: {"id": bos, "ids": [self.bos], "tokens": [bos]}},
        }
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": id, "content": self.tokens[id], "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False, "special": True} for id in sorted(special)],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]} if spm else None,
            "pre_tokenizer": None if spm else byte_level,
            "post_processor": template if add_bos else None,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]} if spm else byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>" if spm else None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": spm,
                      "byte_fallback": spm, "ignore_merges": False, "vocab": ids,
                      "merges": [f"{left} {right}" for left, right in self.merges]},
        }

    def tokenizer_config(self, add_bos):
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": add_bos, "add_eos_token": False,
                  "bos_token": self.tokens[self.bos], "eos_token": self.tokens[self.eos],
                  "clean_up_tokenization_spaces": False}
        return config if self.unknown is None else {**config, "unk_token": self.tokens[self.unknown]}
