#!/usr/bin/env python3
"""Holds tools/packages.txt against the CMake files: whatever CMake asks the system for is listed
with its Debian package, and nothing is listed that CMake does not ask for. Usage: packages.py [ROOT]
"""
import pathlib
import re
import sys

FROM_TOOLCHAIN = {"Threads", "PkgConfig", "CUDAToolkit"}
GROUPS = {"build", "model", "test", "lint", "fuzz", "golden", "bench"}


def read_list(text: str) -> tuple[dict[str, str], list[str]]:
    """CMake name -> package, and what is wrong with the list itself."""
    provided, problems, seen = {}, [], set()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        at = f"tools/packages.txt:{number}"
        if len(words) not in (2, 3):
            problems.append(f"{at}: expected GROUP PACKAGE [CMAKE_NAME], got '{line}'")
            continue
        if words[0] not in GROUPS:
            problems.append(f"{at}: unknown group '{words[0]}'; known: {', '.join(sorted(GROUPS))}")
        if tuple(words[:2]) in seen:
            problems.append(f"{at}: {words[1]} is listed twice in group {words[0]}")
        seen.add(tuple(words[:2]))
        if len(words) == 3:
            provided[words[2]] = words[1]
    return provided, problems


def asked_for(root: pathlib.Path) -> dict[str, str]:
    """CMake name -> where it is asked for first."""
    asked = {}
    files = [root / "CMakeLists.txt", *root.glob("cmake/*.cmake"),
             *(p for top in ("src", "tests", "bench", "tools") for p in root.glob(f"{top}/**/CMakeLists.txt"))]
    for path in sorted(files):
        text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
        names = re.findall(r"find_package\(\s*(\w+)", text)
        for modules in re.findall(r"pkg_check_modules\(\s*\w+([^)]*)\)", text):
            names += [word for word in modules.split() if word not in ("REQUIRED", "IMPORTED_TARGET", "QUIET")]
        for name in names:
            asked.setdefault(name, str(path.relative_to(root)))
    return asked


def check(root: pathlib.Path) -> list[str]:
    provided, problems = read_list((root / "tools/packages.txt").read_text(encoding="utf-8"))
    asked = asked_for(root)
    for name, where in sorted(asked.items()):
        if name not in provided and name not in FROM_TOOLCHAIN:
            problems.append(f"{where}: asks for '{name}', which no line of tools/packages.txt provides")
    for name, package in sorted(provided.items()):
        if name not in asked:
            problems.append(f"tools/packages.txt: {package} provides '{name}', which no CMake file asks for")
    return problems


def main() -> int:
    problems = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]))
    for problem in problems:
        print(problem)
    print(f"package list: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
