"""Conversations as prompts, as transformers' apply_chat_template has them, and replies as messages."""

import json
import typing
import uuid

from . import _bantam
from ._errors import InvalidArgument, Unsupported
from ._schema import schema_of


def messages_of(messages):
    """Messages as dictionaries; pairs (role, content) too."""
    if isinstance(messages, (str, bytes, dict)):
        raise TypeError(f"messages: expected a list of them, found {messages!r:.80} ({type(messages).__name__})")
    return [_message_of(message) for message in messages]


def _message_of(message):
    if isinstance(message, dict):
        if not isinstance(message.get("role"), str):
            raise TypeError(f"messages: expected a text as the role of each, found {message!r:.80}")
        return message
    if isinstance(message, (tuple, list)) and len(message) == 2 and isinstance(message[0], str):
        return {"role": message[0], "content": message[1]}
    raise TypeError(f"messages: expected dictionaries with role and content, found {message!r:.80} ({type(message).__name__})")


def render(tokenizer, messages, *, tools=None, documents=None, chat_template=None, add_generation_prompt=True,
           continue_final_message=False, **variables):
    """The prompt of a conversation, as Tokenizer.apply_chat_template() describes it."""
    messages = messages_of(messages)
    source = chat_template or tokenizer.chat_template
    if source is None:
        raise Unsupported("chat: expected a model with a chat template, this one has none: use a plain prompt or chat_template=")
    # Transformers' order: variables of the caller count more than the tokenizer's own.
    special = {name: tokenizer.token(id) for name, id in (("bos_token", tokenizer.bos), ("eos_token", tokenizer.eos)) if id is not None}
    context = {"messages": messages, "tools": _tools_of(tools), "documents": documents, "add_generation_prompt": bool(add_generation_prompt),
               **special, **variables}
    text = _bantam.render_template(source, _json_of(context))
    return _until_last_message(text, messages) if continue_final_message else text


def _tools_of(tools):
    return None if tools is None else [schema_of(tool) if callable(tool) else tool for tool in tools]


def _json_of(context):
    for name, value in context.items():
        try:
            json.dumps(value, allow_nan=False)
        except TypeError as error:
            raise TypeError(f"{name}: expected what JSON can say, found otherwise: {error}") from None
        except ValueError as error:
            raise InvalidArgument(f"{name}: expected what JSON can say, found otherwise: {error}") from None
    return json.dumps(context, ensure_ascii=False)


def _until_last_message(text, messages):
    """The prompt up to the end of the last message's text."""
    content = messages[-1].get("content") if messages else None
    if isinstance(content, list):
        content = next((part["text"] for part in reversed(content) if isinstance(part, dict) and "text" in part), None)
    if not isinstance(content, str) or not content.strip():
        raise InvalidArgument("continue_final_message: expected a last message with text")
    at = text.rfind(content.strip())
    if at < 0:
        raise InvalidArgument("continue_final_message: expected the template to keep the last message as it is, found it changed")
    # Templates may trim: white space at the end of the message stays only where it was rendered.
    whole = content.lstrip()
    return text[:at + len(whole if text.startswith(whole, at) else content.strip())]


class ReplyEvent(typing.NamedTuple):
    """What happened in a reply: kind is text, reasoning, call (text: the name), arguments (a piece of their JSON), call_end,
    call_broken (text: all that was taken for a call) or markup. The raw texts together are the reply."""

    kind: str
    call: int
    text: str
    id: str
    raw: str


class ReplyParser:
    """Tells apart what a model wrote, piece by piece: reasoning, text, calls of tools."""

    def __init__(self, form, *, prompt="", tools=None, calls=True):
        """form: one of bantam's forms of replies, as Tokenizer.reply_form says it. prompt: what is replied to, or its end. tools: what
        the template was given, for the types of arguments. calls: False where no tools were offered: calls are text."""
        self._made = _bantam.ReplyParser(form, prompt, _tools_json(tools), calls)

    def feed(self, piece):
        """The events that a piece brings."""
        return [ReplyEvent(*event) for event in self._made.feed(piece)]

    def finish(self):
        """The events that were held back: the reply is over."""
        return [ReplyEvent(*event) for event in self._made.finish()]


def parse_reply(text, form, *, prompt="", tools=None, calls=True):
    """A whole reply as a message: {"role": "assistant", "content": ...}, with "reasoning_content" and "tool_calls" where there are some."""
    message = ReplyMessage(form, prompt=prompt, tools=tools, calls=calls)
    message.feed(text)
    message.finish()
    return message.message()


class ReplyMessage:
    """A reply as OpenAI's API has it: deltas while it streams, the message at the end."""

    def __init__(self, form, **options):
        self._parser = ReplyParser(form, **options)
        self._text, self._reasoning, self._calls = "", "", {}

    def feed(self, piece):
        """The deltas that a piece brings."""
        return self._deltas(self._parser.feed(piece))

    def finish(self):
        return self._deltas(self._parser.finish())

    def _deltas(self, events):
        made = []
        for event in events:
            if event.kind in ("text", "call_broken"):
                self._calls.pop(event.call if event.kind == "call_broken" else None, None)
                self._text += event.text
                made.append({"content": event.text})
            elif event.kind == "reasoning":
                self._reasoning += event.text
                made.append({"reasoning_content": event.text})
            elif event.kind == "call":
                # Nine letters and digits: what Mistral's templates take.
                function = {"name": event.text, "arguments": ""}
                self._calls[event.call] = {"id": event.id or uuid.uuid4().hex[:9], "type": "function", "function": function}
                made.append({"tool_calls": [{"index": event.call, **self._calls[event.call], "function": dict(function)}]})
            elif event.kind == "arguments" and event.text:
                self._calls[event.call]["function"]["arguments"] += event.text
                made.append({"tool_calls": [{"index": event.call, "function": {"arguments": event.text}}]})
        return made

    @property
    def has_calls(self):
        return bool(self._calls)

    def message(self):
        made = {"role": "assistant", "content": None if self._calls and not self._text else self._text}
        if self._reasoning:
            made["reasoning_content"] = self._reasoning
        if self._calls:
            made["tool_calls"] = list(self._calls.values())
        return made


def _tools_json(tools):
    return "" if tools is None else _json_of({"tools": _tools_of(tools)})
