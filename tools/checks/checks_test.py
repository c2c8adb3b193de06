#!/usr/bin/env python3
"""Shows that each check finds what it is there to find: every test plants a fault in a small tree."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "plots")]

import banned  # noqa: E402
import bifocal_picture  # noqa: E402
import docs  # noqa: E402
import fetch_model  # noqa: E402
import fuzz  # noqa: E402
import include_direction  # noqa: E402
import new_mixer  # noqa: E402
import packages  # noqa: E402
import test_report  # noqa: E402


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def put(self, name: str, text: str) -> pathlib.Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


class IncludeDirection(Tree):
    def problems(self, name: str, line: str) -> list[str]:
        self.put(name, f"// head\n{line}\n")
        return include_direction.check(self.root)[1]

    def test_downwards_is_fine(self):
        for name, line in [("src/cli/a.cpp", '#include "core/view.h"'), ("src/model/a.h", '#include "formats/gguf/r.h"'),
                           ("src/core/a.cpp", "#include <vector>"), ("src/runtime/a.cpp", '#include "mixers/mixer.h"'),
                           ("src/formats/a.cpp", '#include "bifocal/error.h"')]:
            self.assertEqual(self.problems(name, line), [], name)

    def test_upwards_is_found_with_its_line(self):
        found = self.problems("src/core/a.cpp", '#include "ops/linear.h"')
        self.assertEqual(len(found), 1)
        self.assertIn("a.cpp:2: core may not include ops", found[0])

    def test_sideways_is_found(self):
        self.assertTrue(self.problems("src/ops/a.cpp", '#include "formats/gguf/r.h"'))
        self.assertTrue(self.problems("src/mixers/x/a.cpp", '#include "formats/gguf/r.h"'))

    def test_public_header_counts_as_its_module(self):
        self.assertTrue(self.problems("src/core/a.cpp", "#include <bifocal/session.h>"))

    def test_unrooted_and_unknown_are_found(self):
        self.assertTrue(self.problems("src/core/a.cpp", '#include "view.h"'))
        self.assertTrue(self.problems("src/elsewhere/a.cpp", "#include <vector>"))

    def test_a_mixers_folder_is_its_own(self):
        self.assertTrue(self.problems("src/model/a.cpp", '#include "mixers/sliding_window/config.h"'))


class Banned(Tree):
    def test_a_banned_call_is_found_where_it_is_not_at_home(self):
        self.put("src/core/json/json.h", "return value.dump(2);\n")
        self.put("src/model/a.cpp", "// dump() throws\nx = value->dump();\n")
        self.put("src/model/a_test.cpp", "x = value.dump();\n")
        problems = banned.check(self.root)
        self.assertEqual([p.split(": ")[0] for p in problems], ["src/model/a.cpp:2"])

    def test_a_reference_into_a_result_that_is_gone(self):
        self.put("src/model/a_test.cpp", "const auto& x = read(n)->layers[0].x;\nauto& y = ns::make(1, f(2)).value();\n"
                                         "const auto x = read(n)->layers[0].x;\nconst auto& z = held->layers[0];\n"
                                         "const auto& w = find(n).first;\n")
        self.assertEqual([p.split(": ")[0] for p in banned.check(self.root)],
                         ["src/model/a_test.cpp:1", "src/model/a_test.cpp:2"])


class Packages(Tree):
    def problems(self, listed: str, cmake: str) -> list[str]:
        self.put("tools/packages.txt", listed)
        self.put("CMakeLists.txt", cmake)
        return packages.check(self.root)

    def test_agreement(self):
        self.assertEqual(self.problems("build libfmt-dev fmt\n", "find_package(fmt REQUIRED)\n"), [])

    def test_unlisted_stale_and_malformed(self):
        self.assertIn("asks for 'fmt'", self.problems("build g++\n", "find_package(fmt)\n")[0])
        self.assertIn("no CMake file asks for", self.problems("build libfmt-dev fmt\n", "# find_package(fmt)\n")[0])
        self.assertIn("unknown group", self.problems("bild g++\n", "")[0])
        self.assertIn("asks for 'libx'", self.problems("build g++\n", "pkg_check_modules(X REQUIRED libx)\n")[0])


class Docs(Tree):
    def setUp(self):
        super().setUp()
        self.put("dev", "main() {\n    case $1 in\n        build) x ;;\n        asan | tsan) y ;;\n    esac\n}\n")

    def problems(self, text: str, **how) -> list[str]:
        self.put("README.md", text)
        return docs.check(self.root, **how)[1]

    def test_what_is_there_is_fine(self):
        self.put("docs/a.md", "# One Heading\n")
        self.assertEqual(self.problems("[a](docs/a.md#one-heading) `docs/a.md`\n```sh\n./dev tsan\n```\n"), [])

    def test_links_anchors_and_names(self):
        self.put("docs/a.md", "# One\n")
        self.assertIn("no such file", self.problems("[a](docs/b.md)")[0])
        self.assertIn("anchor", self.problems("[a](docs/a.md#two)")[0])
        self.assertIn("not there", self.problems("see `src/core/view.h`")[0])

    def test_commands(self):
        self.assertIn("no command 'biuld'", self.problems("```sh\n./dev biuld\n```\n")[0])
        self.assertIn("does not parse", self.problems("```sh\nif true\n```\n")[0])
        self.assertIn("status 3", self.problems("```sh run\nexit 3\n```\n", execute=True)[0])
        self.assertEqual(self.problems("```sh\nexit 3\n```\n", execute=True), [])

    def test_flags_of_the_program(self):
        program = self.put("bifocal", '#!/bin/sh\n[ "$1" = run ] && echo "-m FILE  --temp T" || exit 2\n')
        program.chmod(0o755)
        self.assertEqual(self.problems('```sh\nbifocal run -m x --temp 0 -m "-q"\n```\n', program=str(program)), [])
        self.assertIn("no flag '--tempo'", self.problems("```sh\nbifocal run --tempo 0\n```\n", program=str(program))[0])
        self.assertIn("no command 'rn'", self.problems("```sh\nbifocal rn\n```\n", program=str(program))[0])


class TestReport(Tree):
    def report(self, status: str, cases: list[dict] | None) -> tuple:
        self.put("ctest.xml", f'<testsuite><testcase name="ops" status="{status}"/></testsuite>')
        if cases is not None:
            self.put("ops.json", json.dumps({"testsuites": [{"name": "S", "testsuite": cases}]}))
        return test_report.add_up(self.root)

    def test_counts(self):
        ran, bad = {"name": "a", "status": "RUN", "result": "COMPLETED"}, {"name": "b", "status": "RUN", "failures": [{}]}
        skip = {"name": "c", "status": "RUN", "result": "SKIPPED"}
        self.assertEqual(self.report("fail", [ran, bad, skip]), (1, 1, ["S.c"]))
        self.assertEqual(self.report("run", [ran]), (1, 0, []))

    def test_a_crash_is_a_failure(self):
        self.assertEqual(self.report("fail", None), (0, 1, []))

    def test_a_bad_exit_after_green_cases_is_a_failure(self):
        self.assertEqual(self.report("fail", [{"name": "a", "status": "RUN", "result": "COMPLETED"}]), (1, 1, []))

    def test_nothing_ran_is_a_failure(self):
        self.report("run", [])
        done = subprocess.run([sys.executable, HERE / "test_report.py", self.root], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no test ran", done.stderr)


class NewMixer(Tree):
    def test_fills_in_and_adds_one_line(self):
        self.put("examples/new_mixer/NAME_.h", "struct Name_Config;  // NAME_\n")
        self.put("src/mixers/CMakeLists.txt", "bifocal_mixer(full_attention)\n\nbifocal_rest()\n")
        new_mixer.create("slow_decay", self.root)
        text = (self.root / "src/mixers/slow_decay/slow_decay.h").read_text()
        self.assertEqual(text, "struct SlowDecayConfig;  // slow_decay\n")
        self.assertIn("bifocal_mixer(full_attention)\nbifocal_mixer(slow_decay)\n",
                      (self.root / "src/mixers/CMakeLists.txt").read_text())
        self.assertIn("already", new_mixer.problem_with("slow_decay", self.root))

    def test_refuses_bad_names(self):
        for name in ("SlowDecay", "../x", "", "_a", "a b"):
            self.assertIn("snake_case", new_mixer.problem_with(name, self.root), name)


class FetchModel(Tree):
    def test_wrong_size_and_wrong_content_are_found(self):
        path = self.put("m.gguf", "short")
        self.assertIn("expected 98362432 bytes, got 5", fetch_model.problem_with(path))
        with path.open("r+b") as file:
            file.truncate(fetch_model.BYTES)
        self.assertIn("expected SHA-256", fetch_model.problem_with(path))


class Fuzz(Tree):
    """With shell scripts in place of fuzz programs: what libFuzzer prints and how it exits is what counts."""

    def run_fake(self, script: str) -> tuple[bool, str]:
        program = self.put("fake_fuzz", f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        fuzz.ROOT, kept = self.root, fuzz.ROOT
        try:
            return fuzz.fuzz("fake", program, 1)
        finally:
            fuzz.ROOT = kept

    def test_clean_and_found(self):
        stats = "echo '#9 DONE cov: 12 ft: 3'; echo 'stat::number_of_executed_units: 345'"
        clean, line = self.run_fake(stats)
        self.assertTrue(clean)
        self.assertIn("345 inputs, 12 edges", line)
        clean, line = self.run_fake(f"{stats}; echo 'SUMMARY: AddressSanitizer: heap-buffer-overflow x.cpp:1'; exit 77")
        self.assertFalse(clean)
        self.assertIn("FOUND SUMMARY: AddressSanitizer: heap-buffer-overflow", line)

    def test_a_program_that_never_ran_an_input_is_not_clean(self):
        self.assertFalse(self.run_fake("exit 0")[0])


class FrontDoor(unittest.TestCase):
    def dev(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([HERE.parents[1] / "dev", *words], capture_output=True, text=True, cwd="/")

    def test_help_from_any_folder_and_unknown_words_are_usage_errors(self):
        self.assertEqual(self.dev("help").returncode, 0)
        for words in (["biuld"], ["build", "fast"], ["fmt", "--chek"], ["new-mixer", "Bad"], ["setup", "tset"]):
            self.assertEqual(self.dev(*words).returncode, 2, words)


class Picture(unittest.TestCase):
    def test_is_what_its_script_draws(self):
        self.assertEqual(bifocal_picture.OUT.read_text(encoding="utf-8"), bifocal_picture.picture())


if __name__ == "__main__":
    unittest.main()
