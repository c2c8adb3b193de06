#!/usr/bin/env python3
"""Starts a mixer: copies examples/new_mixer to src/mixers/NAME and adds its one line to
src/mixers/CMakeLists.txt. In file names and texts NAME_ becomes the name and Name_ its CamelCase form.
Usage: new_mixer.py NAME [ROOT]
"""
import pathlib
import re
import sys


def problem_with(name: str, root: pathlib.Path) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        return f"a mixer's name is snake_case, as in sliding_window; got '{name}'"
    if (root / "src/mixers" / name).exists():
        return f"src/mixers/{name} is there already"
    if not (root / "examples/new_mixer").is_dir():
        return "examples/new_mixer, the template, is not there"
    return ""


def fill_in(text: str, name: str) -> str:
    camel = "".join(part.capitalize() for part in name.split("_"))
    return text.replace("NAME_", name).replace("Name_", camel)


def add_line(cmake: str, name: str) -> str:
    """After the last bifocal_mixer() line, or at the end."""
    lines = cmake.splitlines()
    last = max((i for i, line in enumerate(lines) if line.startswith("bifocal_mixer(")), default=len(lines) - 1)
    lines.insert(last + 1, f"bifocal_mixer({name})")
    return "\n".join(lines) + "\n"


def create(name: str, root: pathlib.Path) -> list[str]:
    target, template = root / "src/mixers" / name, root / "examples/new_mixer"
    written = []
    for source in sorted(p for p in template.rglob("*") if p.is_file()):
        path = target / fill_in(str(source.relative_to(template)), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill_in(source.read_text(encoding="utf-8"), name), encoding="utf-8")
        written.append(str(path.relative_to(root)))
    cmake = root / "src/mixers/CMakeLists.txt"
    cmake.write_text(add_line(cmake.read_text(encoding="utf-8"), name), encoding="utf-8")
    return written


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print("usage: ./dev new-mixer NAME", file=sys.stderr)
        return 2
    name, root = sys.argv[1], pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else pathlib.Path(__file__).parents[1])
    if problem := problem_with(name, root):
        print(f"new-mixer: {problem}", file=sys.stderr)
        return 2
    for path in create(name, root):
        print(f"wrote {path}")
    print(f"added bifocal_mixer({name}) to src/mixers/CMakeLists.txt")
    print(f"next: write its equations and reference, then run ./dev test {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
