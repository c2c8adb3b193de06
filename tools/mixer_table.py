#!/usr/bin/env python3
"""Writes docs/mixer_table.md, the table of all mixers, from what the program says about itself.
Usage: mixer_table.py PROGRAM [--check]     --check: only says whether the file is up to date.
"""
import json
import pathlib
import subprocess
import sys

OUT = pathlib.Path(__file__).resolve().parents[1] / "docs/mixer_table.md"


def bytes_text(n: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:,.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{n} B"


def table(program: str) -> str:
    said = json.loads(subprocess.run([program, "inspect", "--mixers", "--json"], check=True, capture_output=True,
                                     text=True).stdout)
    lines = ["# All mixers", "",
             "Written by `tools/mixer_table.py` from `bifocal inspect --mixers`; a check holds it to the program. States are those of",
             f"one layer of the shape `{said['shape']}`; full attention has room for {said['capacity']:,} tokens there and grows with it.",
             "", "| layout | far side or rule | state per layer | trains | same bits however cut | devices |",
             "|---|---|---|---|---|---|"]
    for row in said["mixers"]:
        yes = {True: "yes", False: "no"}
        lines.append(f"| `{row['layout']}` | {row['what'] or '–'} | {bytes_text(row['state_bytes'])}"
                     f"{', grows' if row['grows'] else ''} | {yes[row['trains']]} | "
                     f"{yes[row['same_bits_for_any_chunking']]} | {', '.join(row['devices'])} |")
    return "\n".join(lines) + "\n"


def problem_with(program: str) -> str:
    if OUT.exists() and OUT.read_text(encoding="utf-8") == table(program):
        return ""
    return f"{OUT.name} is not what the program says; run tools/mixer_table.py {program}"


def main() -> int:
    program = sys.argv[1]
    if "--check" not in sys.argv[2:]:
        OUT.write_text(table(program), encoding="utf-8")
        return 0
    if problem := problem_with(program):
        print(problem, file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
