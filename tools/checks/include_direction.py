#!/usr/bin/env python3
"""Holds every #include "..." below src/ and include/ to the one rule of the architecture:

    cli -> server, train, eval -> runtime -> model -> mixers, ops -> core
    formats -> core; model also reads formats; nothing points up

and to a second one: nothing outside src/mixers includes a mixer's own folder. Includes are written
from src/. Prints file:line for each break. Usage: include_direction.py [ROOT]
"""
import pathlib
import re
import sys

# What each module includes directly; it may also include whatever those may.
DIRECT = {
    "core": [],
    "formats": ["core"],
    "ops": ["core"],
    "mixers": ["ops"],
    "model": ["mixers", "formats"],
    "runtime": ["model"],
    "train": ["runtime"],
    "eval": ["runtime"],
    "server": ["runtime"],
    "cli": ["server", "train", "eval"],
}
# The module a public header speaks for.
PUBLIC = {"error.h": "core", "model.h": "model", "session.h": "runtime"}
# Folders of src/mixers that are not a mixer and may be included from above.
MIXER_COMMONS = {"contract", "shared"}

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<(bifocal/[^>]+)>)')


def allowed_from(module: str) -> set[str]:
    reach = {module}
    for below in DIRECT[module]:
        reach |= allowed_from(below)
    return reach


def module_of(included: str) -> str | None:
    parts = included.split("/")
    if parts[0] == "bifocal" and len(parts) == 2:
        return PUBLIC.get(parts[1])
    return parts[0] if len(parts) > 1 and parts[0] in DIRECT else None


def problem_with(owner: str, included: str) -> str | None:
    target = module_of(included)
    if target is None:
        if included.startswith("bifocal/"):
            return f"public header '{included}' has no module; add it to PUBLIC in tools/checks/include_direction.py"
        return f"'{included}' is not written from src/ or names an unknown module"
    if target not in allowed_from(owner):
        return f"{owner} may not include {target} ('{included}')"
    parts = included.split("/")
    if parts[0] == "mixers" and owner != "mixers" and len(parts) > 2 and parts[1] not in MIXER_COMMONS:
        return f"a mixer's folder is its own: {owner} may not include '{included}'"
    return None


def check_file(path: pathlib.Path, owner: str, generated: set[str]) -> list[str]:
    problems = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not (match := INCLUDE.match(line)):
            continue
        included = match.group(1) or match.group(2)
        if included in generated:
            continue
        if problem := problem_with(owner, included):
            problems.append(f"{path}:{number}: {problem}")
    return problems


def check(root: pathlib.Path) -> tuple[int, list[str]]:
    """Number of files read, and what is wrong."""
    files, problems = 0, []
    # A list file that CMake writes (all_mixers.h and the like) has no folder of its own.
    generated = {match for cmake in root.glob("**/CMakeLists.txt") if "build" not in cmake.parts
                 for match in re.findall(r"\w+\.(?:h|inc)\b", cmake.read_text(encoding="utf-8"))}
    for path in sorted([*root.glob("src/**/*"), *root.glob("include/**/*")]):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh", ".inc"}:
            continue
        parts = path.relative_to(root).parts
        owner = PUBLIC.get(path.name) if parts[0] == "include" else parts[1]
        files += 1
        if owner not in DIRECT:
            problems.append(f"{path}:1: the module of this file is unknown to tools/checks/include_direction.py")
            continue
        problems += check_file(path, owner, generated)
    return files, problems


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    files, problems = check(root)
    for problem in problems:
        print(problem)
    print(f"include direction: {files} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
