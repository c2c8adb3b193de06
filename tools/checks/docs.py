#!/usr/bin/env python3
"""Holds the Markdown files to what is really there: relative links and their anchors, files named in
backquotes, and commands in ```sh blocks, which must parse and name commands and flags that exist.
A block that opens with ```sh run is executed as well when --run is given. The program's own flags are
checked when --bifocal names it, and so is the table of mixers. Usage: docs.py [--run] [--bifocal PROGRAM] [--root ROOT]
"""
import argparse
import functools
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import mixer_table  # noqa: E402

FENCE = re.compile(r"^```(\w*)[ ]*(.*?)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([^`\n]+)`")
TOPS = ("src/", "include/", "tests/", "tools/", "docs/", "examples/", "bench/", "cmake/", ".ci/")
SOURCE_LIKE = re.compile(r"[\w.-]+(/[\w.-]+)+\.(h|cpp|cu|cuh|py|md|txt|json|cmake)")


def markdown_files(root: pathlib.Path) -> list[pathlib.Path]:
    patterns = ("*.md", "docs/**/*.md", "src/**/*.md", "examples/**/*.md", "bench/**/*.md", "tests/**/*.md")
    return sorted({path for pattern in patterns for path in root.glob(pattern)})


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ +(.+?)\s*$", re.sub(FENCE, "", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def check_links(path: pathlib.Path, text: str) -> list[str]:
    problems = []
    for target in LINK.findall(re.sub(FENCE, "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists():
            problems.append(f"{path}: link to '{target}': there is no such file")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            problems.append(f"{path}: link to '{target}': no heading makes that anchor")
    return problems


def check_names(root: pathlib.Path, path: pathlib.Path, text: str) -> list[str]:
    """Files named in backquotes: from the root, from src/, or from the document's own folder."""
    problems = []
    for name in QUOTED.findall(re.sub(FENCE, "", text)):
        if re.search(r"[<>*{}$\s]|NAME", name):
            continue
        if not (name.startswith(TOPS) or SOURCE_LIKE.fullmatch(name)):
            continue
        name = name.split("#")[0].split(":")[0]
        if not any((top / name).exists() for top in (root, root / "src", root / "include", path.parent)):
            problems.append(f"{path}: names '{name}', which is not there")
    return problems


def commands_of_dev(root: pathlib.Path) -> set[str]:
    """What the front door's main() answers to."""
    body = (root / "dev").read_text(encoding="utf-8").partition("main() {")[2]
    labels = re.findall(r"^ +([a-z][\w| -]*)\)", body, re.MULTILINE)
    return {name.strip() for label in labels for name in label.split("|")}


@functools.cache
def help_of(program: str, command: str) -> str | None:
    done = subprocess.run([program, command, "--help"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def check_line(line: str, dev_commands: set[str], program: str | None) -> str:
    """Empty, or what is wrong with one command line of a block."""
    words = line.split()
    while words and re.fullmatch(r"\w+=\S*", words[0]):
        words = words[1:]
    if not words:
        return ""
    first = words[0].rsplit("/", 1)[-1]
    if words[0] == "./dev" and len(words) > 1 and words[1] not in dev_commands:
        return f"./dev has no command '{words[1]}'"
    if first != "bifocal" or program is None or len(words) < 2 or words[1].startswith("-"):
        return ""
    text = help_of(program, words[1])
    if text is None:
        return f"bifocal has no command '{words[1]}'"
    own = re.split(r"[|;]", " ".join(words[2:]))[0]
    unquoted = re.sub(r'"[^"]*"|\'[^\']*\'', "", own)
    for flag in re.findall(r"(?<!\S)(--?[a-z][\w-]*)", unquoted):
        if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text):
            return f"bifocal {words[1]} has no flag '{flag}'"
    return ""


def check_blocks(root: pathlib.Path, path: pathlib.Path, text: str, execute: bool, program: str | None) -> list[str]:
    problems, dev_commands = [], commands_of_dev(root)
    for language, mark, body in FENCE.findall(text):
        if language != "sh":
            continue
        if mark not in ("", "run"):
            problems.append(f"{path}: a block is marked 'sh {mark}'; known marks: run")
        parsed = subprocess.run(["bash", "-n"], input=body, capture_output=True, text=True)
        if parsed.returncode != 0:
            problems.append(f"{path}: a block does not parse: {parsed.stderr.strip()}")
            continue
        for line in body.replace("\\\n", " ").splitlines():
            if problem := check_line(line, dev_commands, program):
                problems.append(f"{path}: '{line.strip()}': {problem}")
        if execute and mark == "run":
            print(f"+ {path.relative_to(root)}: running\n{body.rstrip()}", flush=True)
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=root, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                problems.append(f"{path}: a block marked 'sh run' ended with status {done.returncode}:\n{body.rstrip()}")
    return problems


def check(root: pathlib.Path, execute: bool = False, program: str | None = None) -> tuple[int, list[str]]:
    files, problems = markdown_files(root), []
    for path in files:
        text = path.read_text(encoding="utf-8")
        problems += check_links(path, text)
        problems += check_names(root, path, text)
        problems += check_blocks(root, path, text, execute, program)
    return len(files), problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--bifocal")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    args = parser.parse_args()
    files, problems = check(args.root, args.run, args.bifocal)
    if args.bifocal and (problem := mixer_table.problem_with(args.bifocal)):
        problems.append(problem)
    for problem in problems:
        print(problem.removeprefix(f"{args.root}/"))
    print(f"docs: {files} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
