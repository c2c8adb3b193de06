#!/usr/bin/env python3
"""Renders the cases of template_cases.py and the chat templates of template_styles.py with jinja2, in
the environment that transformers gives chat templates, and writes tests/golden/template/*.jsonl: a first
line with the versions, then one case a line: template, variables, and what jinja2 made of them ("expected")
or the fact that it refused ("error"). From the same templates it writes the fuzzer's seeds. Run it with a Python that has jinja2 3.1.6.
Given a GGUF file of SmolLM2, it also renders that model's own template (needs the package gguf).
"""
import datetime
import json
import pathlib
import platform
import sys
from importlib.metadata import version

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

import template_cases
import template_styles

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/template"
SEEDS = ROOT / "tests/fuzz/corpus/template"
CLOCK = datetime.datetime(2026, 2, 3, 4, 5, 6)  # what strftime_now sees, here and in the test
BASE = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": False}


class Generation(jinja2.ext.Extension):
    """{% generation %}: a call block around a function that gives its body back."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    """Refuses names with a leading underscore, as transformers' does."""

    def __init__(*args, **kwargs):
        self, *rest = args
        attrs = dict(*rest, **kwargs)
        for name in attrs:
            check_name(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        check_name(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)


def check_name(name):
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError("underscore")


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=lambda f: CLOCK.strftime(f),
                       dict=Dict(), namespace=Namespace)
    return env


def render(template, variables):
    try:
        return {"expected": environment().from_string(template).render(**(BASE | variables))}
    except Exception as problem:  # whatever Python raises, the template has failed
        return {"error": f"{type(problem).__name__}: {problem}"[:120]}


def is_comparable(result):
    return " at 0x" not in result.get("expected", "")  # an address differs with every run


def write(name, head, cases):
    """`cases`: (what the line says of the case, template, variables)"""
    path = OUT / f"{name}.jsonl"
    written = {"jinja2": jinja2.__version__, "markupsafe": version("markupsafe"),
               "python": platform.python_version(), "clock": CLOCK.isoformat()}
    lines, failed = {}, 0
    for line, template, variables in cases:
        result = render(template, variables)
        if is_comparable(result):
            failed += "error" in result
            lines[json.dumps(line | result, ensure_ascii=False)] = None
    with path.open("w", encoding="utf-8") as out:
        out.write(json.dumps({"written_by": written} | head, ensure_ascii=False) + "\n")
        out.writelines(line + "\n" for line in lines)
    print(f"{path.name}: {len(lines)} cases, {failed} of them refused by jinja2")


def used(template):
    """The variables of the common data that a template names: keeps the file small."""
    return {k: v for k, v in template_cases.DATA.items() if k in template}


def construct(template):
    variables = used(template)
    return {"template": template, "variables": variables}, template, variables


def style(key):
    line = dict(zip(("style", "conversation", "tools", "prompt", "extra"), key))
    return line, template_styles.STYLES[key[0]], template_styles.variables(*key[1:])


def write_smollm2(model):
    """What SmolLM2's own template makes of the conversations; the template itself stays in the model."""
    from gguf import GGUFReader
    source = bytes(GGUFReader(model).fields["tokenizer.chat_template"].parts[-1]).decode()
    cases = []
    for messages in template_styles.CONVERSATIONS.values():
        for prompt in (True, False):
            variables = {"messages": messages, "add_generation_prompt": prompt}
            if "expected" in render(source, variables):
                cases.append(({"messages": messages, "prompt": prompt}, source, variables))
    write("smollm2", {"model": "SmolLM2-135M-Instruct"}, cases)


def write_seeds(cases):
    """Seeds of the fuzzer: the styles, and small cases that render, a few in each file."""
    SEEDS.mkdir(parents=True, exist_ok=True)
    for name, source in template_styles.STYLES.items():
        (SEEDS / f"style_{name}").write_text(source, encoding="utf-8", newline="")
    good = [c for c in cases if "expected" in render(c, template_cases.DATA)]
    for first in range(0, len(good), 24):
        text = "\n".join(good[first:first + 24])
        (SEEDS / f"cases_{first // 24:02}").write_text(text, encoding="utf-8", newline="")


def main():
    if jinja2.__version__ != "3.1.6":
        sys.exit(f"needs jinja2 3.1.6, got {jinja2.__version__}")
    OUT.mkdir(parents=True, exist_ok=True)
    small = [f"{{{{ {e} }}}}" for e in template_cases.EXPRESSIONS] + template_cases.STATEMENTS
    write("constructs", {}, map(construct, small))
    write("styles", {"styles": template_styles.STYLES, "conversations": template_styles.CONVERSATIONS,
                     "tools": template_styles.TOOLS, "extras": template_styles.EXTRAS},
          map(style, template_styles.cases()))
    write_seeds(small)
    if len(sys.argv) > 1:
        write_smollm2(sys.argv[1])


if __name__ == "__main__":
    main()
