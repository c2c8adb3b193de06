#!/usr/bin/env python3
"""Finds calls in src/ that the project has a safer word for. Prints file:line and what to write instead.
Usage: banned.py [ROOT]
"""
import pathlib
import re
import sys

# Pattern, what to write instead, the one file that may use it.
BANNED = [
    (re.compile(r"(\.|->)dump\("), "json::to_text(): dump() throws at text that is not UTF-8", "src/core/json/json.h"),
]


def check(root: pathlib.Path) -> list[str]:
    problems = []
    for path in sorted((root / "src").rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in (".h", ".cpp") or "_test." in path.name or "/testing/" in name:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = line.split("//")[0]
            problems += [f"{name}:{number}: write {instead}" for pattern, instead, home in BANNED
                         if name != home and pattern.search(code)]
    return problems


def main() -> None:
    problems = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]))
    print("\n".join(problems + [f"banned calls: {len(problems)} problems"]))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
