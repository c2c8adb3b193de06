#!/usr/bin/env python3
"""Runs every golden writer in this folder. Without --update it runs them in a copy of the tree and
says which files would change (exit 1 if any); with --update the files in tests/golden change.
Usage: run_all.py [--update] [SCRIPT...]   (names without .py; default: all)
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent


def writers(wanted: list[str]) -> list[str]:
    """Scripts with a main part; the rest are modules that those import."""
    names = [p.stem for p in sorted(HERE.glob("*.py"))
             if p.stem != "run_all" and "__main__" in p.read_text(encoding="utf-8")]
    if unknown := set(wanted) - set(names):
        sys.exit(f"golden: no script {', '.join(sorted(unknown))}; scripts: {', '.join(names)}")
    return wanted or names


def copy_tree(target: pathlib.Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True,
                            text=True, check=True).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    (target / ".cache").symlink_to(ROOT / ".cache")


def run(root: pathlib.Path, names: list[str]) -> list[str]:
    """Names of the scripts that failed."""
    failed = []
    for name in names:
        print(f"+ tools/golden/{name}.py", flush=True)
        if subprocess.run([sys.executable, root / "tools/golden" / f"{name}.py"], cwd=root).returncode != 0:
            failed.append(name)
    return failed


def differences(left: pathlib.Path, right: pathlib.Path) -> list[str]:
    names = {p.relative_to(top) for top in (left, right) for p in top.rglob("*") if p.is_file()}
    said = []
    for name in sorted(names):
        old, new = left / name, right / name
        if not new.exists():
            said.append(f"would go: {name}")
        elif not old.exists():
            said.append(f"would come: {name}")
        elif old.read_bytes() != new.read_bytes():
            said.append(f"would change: {name}")
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("scripts", nargs="*")
    args = parser.parse_args()
    names = writers(args.scripts)
    if args.update:
        failed, changed = run(ROOT, names), []
    else:
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            copy_tree(copy)
            failed = run(copy, names)
            changed = differences(ROOT / "tests/golden", copy / "tests/golden")
    for line in changed:
        print(line)
    print(f"golden: {len(names)} scripts, {len(failed)} failed {failed or ''}, {len(changed)} files would change")
    return 1 if failed or changed else 0


if __name__ == "__main__":
    sys.exit(main())
