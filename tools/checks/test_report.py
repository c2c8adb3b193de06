#!/usr/bin/env python3
"""Adds up what a test run wrote: CTest's ctest.xml and one GoogleTest JSON file per program in the
same folder. Names what was skipped and why, and closes with 'N passed, N failed, N skipped'.
Fails when anything failed, or when nothing ran at all. Usage: test_report.py FOLDER
"""
import json
import pathlib
import sys
import xml.etree.ElementTree


def count_cases(report: dict) -> tuple[int, int, list[str]]:
    """Passed, failed and skipped cases of one GoogleTest program."""
    passed, failed, skipped = 0, 0, []
    for suite in report.get("testsuites", []):
        for case in suite.get("testsuite", []):
            name = f"{suite['name']}.{case['name']}"
            if case.get("result") == "SKIPPED":
                skipped.append(name)
            elif case.get("status") != "RUN":
                continue
            elif case.get("failures"):
                failed += 1
            else:
                passed += 1
    return passed, failed, skipped


def add_up(folder: pathlib.Path) -> tuple[int, int, list[str]]:
    passed, failed, skipped = 0, 0, []
    for entry in xml.etree.ElementTree.parse(folder / "ctest.xml").getroot().iter("testcase"):
        program_failed = entry.get("status") not in ("run", "notrun", "disabled")
        report = folder / f"{entry.get('name')}.json"
        if not report.exists():  # a script, or a program that died before it could report
            failed += program_failed
            passed += not program_failed
            continue
        counts = count_cases(json.loads(report.read_text(encoding="utf-8")))
        passed += counts[0]
        failed += counts[1]
        skipped += counts[2]
        if program_failed and counts[1] == 0:
            failed += 1  # every case passed, yet the program did not end well: a sanitizer or a crash
    return passed, failed, skipped


def main() -> int:
    passed, failed, skipped = add_up(pathlib.Path(sys.argv[1]))
    for name in skipped:
        print(f"skipped: {name}")
    if passed + failed == 0:
        print("no test ran: the name matches none", file=sys.stderr)
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
    return 1 if failed or passed + failed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
