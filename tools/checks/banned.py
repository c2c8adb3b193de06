#!/usr/bin/env python3
"""Finds what the project has a safer word for, in src/ and tests/. Prints file:line and what to write instead.
Usage: banned.py [ROOT]
"""
import dataclasses
import pathlib
import re
import sys


@dataclasses.dataclass
class Ban:
    pattern: re.Pattern
    instead: str
    home: str = ""  # the one file that may use it
    is_for_tests: bool = False  # tests must not have it either


BANS = [
    Ban(re.compile(r"(\.|->)dump\("), "json::to_text(): dump() throws at text that is not UTF-8", "src/core/json/json.h"),
    Ban(re.compile(r"auto&\s+\w+\s*=\s*\*?[\w:]+\([^;]*\)(->|\.value\(\))"),
        "a copy: the Result that this refers into is gone at the end of the line", is_for_tests=True),
]


def is_test(name: str) -> bool:
    return "_test." in name or "/testing/" in name or name.startswith("tests/")


def check(root: pathlib.Path) -> list[str]:
    problems = []
    for path in sorted(path for top in ("src", "tests") for path in (root / top).rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in (".h", ".cpp"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = line.split("//")[0]
            problems += [f"{name}:{number}: write {ban.instead}" for ban in BANS
                         if name != ban.home and (ban.is_for_tests or not is_test(name)) and ban.pattern.search(code)]
    return problems


def main() -> None:
    problems = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]))
    print("\n".join(problems + [f"banned: {len(problems)} problems"]))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
