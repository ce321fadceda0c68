"""Conversations as prompts: what transformers' apply_chat_template gives a template, rendered by the library."""

import json

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
