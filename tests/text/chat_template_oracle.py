#!/usr/bin/python3
"""Renders templates with Jinja2, set up as Hugging Face's transformers sets it up, for comparison with our interpreter.

usage: chat_template_oracle.py CASES.json
CASES.json holds [{"source": "...", "context": {...}, "name": "..."}, ...]; the output holds, in the same order,
{"text": "..."} or {"error": "..."} a case.
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the assistant says; the text itself is as without it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    def _said(self, caller):
        return caller()


def refuse(message):
    raise jinja2.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


# The moment that the tests give our interpreter too: 2025-03-04 15:06:07.
NOW = datetime.datetime(2025, 3, 4, 15, 6, 7)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = NOW.strftime
    return env


def main():
    env = environment()
    templates = {}
    results = []
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    for case in cases:
        try:
            source = case["source"]
            if source not in templates:
                templates[source] = env.from_string(source)
            text = templates[source].render(**case["context"])
            text.encode("utf-8")
            results.append({"text": text})
        except Exception as error:  # whatever goes wrong in Python must be an Error of ours
            results.append({"error": f"{type(error).__name__}: {error}"})
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
