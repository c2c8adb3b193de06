#!/usr/bin/env python3
"""Runs the libFuzzer programs of a build folder, a few at a time, each for a given time, from the
seeds in tests/fuzz/corpus/TARGET. What they learn stays in .cache/fuzz/TARGET/corpus, what they find
in .cache/fuzz/TARGET/findings. One line per target; fails on any crash, leak, time-out or bad exit.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

INPUT_TIMEOUT_S = 10
MEMORY_LIMIT_MB = 2048
ROOT = pathlib.Path(__file__).parents[1]


def find_targets(build: pathlib.Path, wanted: str | None) -> dict[str, pathlib.Path]:
    programs = {p.name.removesuffix("_fuzz"): p for p in sorted(build.rglob("*_fuzz"))
                if p.is_file() and os.access(p, os.X_OK)}
    if not programs:
        sys.exit(f"fuzz: {build} holds no *_fuzz program")
    if wanted is None:
        return programs
    if wanted not in programs:
        sys.exit(f"fuzz: no target '{wanted}'; targets: {', '.join(programs)}")
    return {wanted: programs[wanted]}


def environment() -> dict[str, str]:
    env = dict(os.environ)
    env["ASAN_OPTIONS"] = "detect_leaks=1:allocator_may_return_null=0:detect_stack_use_after_return=1"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
    if symbolizer := shutil.which("llvm-symbolizer-14"):
        env["ASAN_SYMBOLIZER_PATH"] = symbolizer
    return env


def fuzz(name: str, program: pathlib.Path, seconds: int) -> tuple[bool, str]:
    """Whether the target stayed clean, and its line."""
    home = ROOT / ".cache/fuzz" / name
    corpus, findings, seeds = home / "corpus", home / "findings", ROOT / "tests/fuzz/corpus" / name
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    command = [program, f"-max_total_time={seconds}", f"-timeout={INPUT_TIMEOUT_S}",
               f"-rss_limit_mb={MEMORY_LIMIT_MB}", f"-artifact_prefix={findings}/", "-print_final_stats=1",
               corpus, *([seeds] if seeds.is_dir() else [])]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment(), cwd=home)
    log = done.stdout.decode("utf-8", "replace")
    (home / "log.txt").write_text(log, encoding="utf-8")
    executed = re.findall(r"stat::number_of_executed_units:\s*(\d+)", log)
    coverage = re.findall(r"\bcov: (\d+)", log)
    line = (f"{name:<16} {seconds} s, {int(executed[-1]) if executed else 0:,} inputs, "
            f"{coverage[-1] if coverage else '?'} edges, {sum(1 for _ in corpus.iterdir())} kept")
    if done.returncode == 0 and executed:
        return True, f"{line}: clean"
    cause = re.search(r"(SUMMARY: .*|ERROR: libFuzzer: .*)", log)
    artifact = re.search(r"Test unit written to (\S+)", log)
    return False, (f"{line}: FOUND {cause.group(1) if cause else f'exit status {done.returncode}'}"
                   f"; input {artifact.group(1) if artifact else 'unknown'}; log {home / 'log.txt'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--target")
    args = parser.parse_args()
    targets = find_targets(args.build, args.target)
    print(f"fuzzing {len(targets)} targets for {args.seconds} s each, {args.jobs} at a time: {', '.join(targets)}",
          flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        runs = [pool.submit(fuzz, name, program.resolve(), args.seconds) for name, program in targets.items()]
        for run in concurrent.futures.as_completed(runs):
            clean, line = run.result()
            failed += not clean
            print(line, flush=True)
    print(f"{len(targets) - failed} targets clean, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
