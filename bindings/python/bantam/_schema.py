"""Functions as the JSON schemas that chat templates show models: by type hints and docstrings of Google's style."""

import inspect
import re
import types
import typing

_NAMES = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


def schema_of(function):
    """{"type": "function", "function": {name, description, parameters}} of a Python function."""
    name = getattr(function, "__name__", type(function).__name__)
    text, arguments, returned = _parts_of(inspect.getdoc(function))
    if not text:
        raise ValueError(f"tools: {name}: expected a docstring that says what the function does")
    hints = typing.get_type_hints(function)
    properties, required = {}, []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in hints:
            raise ValueError(f"tools: {name}: {parameter.name}: expected a type hint")
        if parameter.name not in arguments:
            raise ValueError(f"tools: {name}: {parameter.name}: expected a line in the docstring's Args")
        schema = _schema(hints[parameter.name])
        description = arguments[parameter.name]
        if choices := re.search(r"\(choices:\s*(\[.*?\])\s*\)\s*$", description, re.DOTALL):
            schema["enum"] = _list_of(choices.group(1))
            description = description[:choices.start()].strip()
        properties[parameter.name] = {**schema, "description": description}
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
    parameters = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    made = {"name": name, "description": text, "parameters": parameters}
    if "return" in hints and hints["return"] is not type(None):
        made["return"] = {**_schema(hints["return"]), **({"description": returned} if returned else {})}
    return {"type": "function", "function": made}


def _list_of(text):
    import json

    return json.loads(text)


def _parts_of(doc):
    """The text, {argument: description} and what is returned."""
    sections = re.split(r"(?m)^(Args|Arguments|Returns|Raises|Example|Examples):[ \t]*$", inspect.cleandoc(doc or ""))
    named = dict(zip(sections[1::2], sections[2::2]))
    arguments = {}
    block = inspect.cleandoc("\n" + named.get("Args", named.get("Arguments", "")))
    for match in re.finditer(r"(?ms)^(\w+)(?:[ \t]*\([^)\n]*\))?:[ \t]*(.*?)(?=^\w|\Z)", block):
        arguments[match.group(1)] = " ".join(match.group(2).split())
    return sections[0].strip(), arguments, " ".join(named.get("Returns", "").split())


def _schema(hint):
    if hint is typing.Any or hint is inspect.Parameter.empty:
        return {}
    if hint in _NAMES:
        return {"type": _NAMES[hint]}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        kinds = [_schema(part) for part in inner if part is not type(None)]
        if len(kinds) == 1:
            made = dict(kinds[0])
        elif all(set(kind) == {"type"} and isinstance(kind["type"], str) for kind in kinds):
            made = {"type": sorted(kind["type"] for kind in kinds)}
        else:
            made = {"anyOf": kinds}
        return {**made, "nullable": True} if type(None) in inner else made
    if origin is typing.Literal:
        kinds = {type(value) for value in inner}
        return {**({"type": _NAMES[kinds.pop()]} if len(kinds) == 1 else {}), "enum": list(inner)}
    if (origin or hint) is list:
        return {"type": "array", **({"items": _schema(inner[0])} if inner else {})}
    if (origin or hint) is tuple:
        return {"type": "array", **({"prefixItems": [_schema(part) for part in inner]} if inner else {})}
    if (origin or hint) is dict:
        return {"type": "object", **({"additionalProperties": _schema(inner[1])} if len(inner) == 2 else {})}
    raise TypeError(f"tools: expected type hints that JSON has types for, found {hint!r}")
