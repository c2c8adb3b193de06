#!/usr/bin/env python3
"""Runs clang-tidy over the C++ files that the build compiles, skipping those that were clean before
and have not changed since, nor any project header that they include, nor the list of checks. Tests are
left out unless named: they use values after a move on purpose, and GoogleTest is slow to read.
Usage: tidy.py --build FOLDER [--jobs N] [FILE...]
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
CLEAN = ROOT / ".cache/tidy"
INCLUDE = re.compile(rb'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
TIDY = "clang-tidy-14"


def with_headers(path: pathlib.Path, seen: dict[pathlib.Path, bytes]) -> None:
    """Collects the file and every project header it reaches."""
    if path in seen:
        return
    seen[path] = path.read_bytes()
    for name in INCLUDE.findall(seen[path]):
        for top in (ROOT / "src", ROOT / "include", path.parent):
            header = top / name.decode("utf-8", "replace")
            if header.is_file():
                with_headers(header.resolve(), seen)
                break


def key_of(path: pathlib.Path, command: str) -> str:
    seen: dict[pathlib.Path, bytes] = {}
    with_headers(path, seen)
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + command.encode())
    for name in sorted(seen):
        digest.update(hashlib.sha256(seen[name]).digest())
    return digest.hexdigest()


def tidy(path: pathlib.Path, build: pathlib.Path, key: str) -> str:
    """Empty when clean, else what clang-tidy said."""
    done = subprocess.run([TIDY, "--quiet", "-p", str(build), "--extra-arg=-Wno-unknown-warning-option", str(path)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        (CLEAN / key).touch()
        return ""
    return done.stdout + "\n".join(line for line in done.stderr.splitlines() if "error" in line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    CLEAN.mkdir(parents=True, exist_ok=True)
    wanted = {path.resolve() for path in args.files}
    todo, known = [], 0
    for entry in json.loads((args.build / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.Path(entry["file"]).resolve()
        left_out = path not in wanted if wanted else path.name.endswith("_test.cpp")
        if left_out or not path.is_relative_to(ROOT) or not path.exists():
            continue
        key = key_of(path, entry["command"].replace(str(ROOT), ""))
        if (CLEAN / key).exists():
            known += 1
        else:
            todo.append((path, key))
    problems = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for said in pool.map(lambda job: tidy(job[0], args.build, job[1]), todo):
            if said:
                problems += 1
                print(said, flush=True)
    print(f"clang-tidy: {len(todo)} files read, {known} unchanged since they were clean, {problems} with problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
