"""Every command line of README.md and docs/ is run, here as a reader types it. Usage: commands_test.py BUILD"""

import json
import os
import signal
import sys

sys.dont_write_bytecode = True

import documents  # noqa: E402
from homes import HOMES  # noqa: E402
from support import ReaderTest, main  # noqa: E402

KINDS = {"run", "dry", "kill", "install", "named"}
LANGUAGES = {"", "sh", "bash", "text", "python", "conf"}


class Homes(ReaderTest):
    def test_every_line_has_a_home_and_every_home_a_line(self):
        lines = {command: str(place) for place, command in documents.command_lines()}
        self.assertEqual({line: place for line, place in lines.items() if line not in HOMES}, {},
                         "give these lines a home in tests/docs/homes.py")
        self.assertEqual(set(HOMES) - set(lines), set(), "no page has these lines any more")

    def test_every_home_is_of_a_kind_and_what_is_not_run_has_a_reason(self):
        for line, home in HOMES.items():
            self.assertIn(home.kind, KINDS, line)
            if home.kind in ("named", "kill"):
                self.assertTrue(home.reason, line)

    def test_every_block_is_of_a_known_language(self):
        for page in documents.all_pages():
            for line, language, _ in documents.code_blocks(page):
                self.assertIn(language, LANGUAGES, f"{page}:{line}")


class Commands(ReaderTest):
    def of_kind(self, kind):
        for place, command in documents.command_lines():
            if command in HOMES and HOMES[command].kind == kind:
                with self.subTest(f"{place}: {command}"):
                    yield command

    def test_lines_that_run_anywhere(self):
        outputs = {command: self.shell(command) for command in self.of_kind("run")}
        for command, output in outputs.items():
            if command.startswith("muster run"):
                self.assertIn("muster: the run succeeded", output, command)
        self.assertIn("run1: succeeded, exit code 0", outputs["muster status"])
        self.assertEqual(json.loads(outputs["muster status --json"])["verdict"]["outcome"], "succeeded")
        self.shell("~/bin/muster version")  # what a line of README.md has copied

    def test_lines_for_slurm_as_far_as_they_go_without(self):
        for command in self.of_kind("dry"):
            output = self.shell(command.replace("muster submit ", "muster submit --dry-run ", 1))
            self.assertIn("muster run", output, command)

    def test_lines_that_are_only_named(self):
        for command in self.of_kind("named"):
            check = HOMES[command].check
            if check:
                where = f"cd {documents.ROOT} && " if check[0] == "cmake" else ""
                output = self.shell(where + " ".join(check), what=f"{command}: {' '.join(check)}")
                self.assertIn('"release"' if check[0] == "cmake" else "usage", output)

    def test_installing(self):
        prefix = self.folder / "prefix"
        for command in self.of_kind("install"):
            self.shell(command.replace("/opt/muster", str(prefix)))
        for name in ("bin/muster", "bin/rendezvousd", "bin/muster-train", "share/man/man1/muster.1",
                     "share/man/man7/muster-environment.7", "share/doc/muster/docs/user/first-job.md"):
            self.assertTrue((prefix / name).is_file(), name)
        for name in (self.build / "lib").glob("spank_muster.so"):
            self.assertTrue(list(prefix.glob(f"lib*/**/{name.name}")), name)
        self.shell(f"{prefix}/bin/muster run --local 2 -- python train.py")

    def test_a_killed_rank_comes_back_as_the_readme_says(self):
        self.assertIn("kill -9 $(pgrep -n muster-train)", HOMES)
        process = self.start("muster run --local 2x2 -- muster-train --data README.md --steps 60 --step-time-min 30")
        workers = self.wait(lambda: (lambda pids: pids if len(pids) == 4 else None)(self.by_start("muster-train")),
                            "four workers")
        log = lambda: "".join(path.read_text() for path in self.folder.glob(".muster/*/run1/logs/*/rank-0*"))
        self.wait(lambda: "step 10/60" in log(), "step 10")
        os.kill(workers[-1], signal.SIGKILL)
        self.wait(lambda: "round 2" in log(), "a second round")
        self.assertEqual(set(workers[:-1]) - set(self.by_start("muster-train")), set(), "the three others stay")
        output = self.end(process, "the training")
        self.assertRegex(output, r"muster: round 2: 4 workers on 2 nodes, because rank \d on local\d was killed by "
                                 r"signal 9 \(SIGKILL\)")
        self.assertIn("0 steps are done again", output.split("round 2", 1)[1])


class Programs(ReaderTest):
    def test_train_py_resumes_from_its_newest_checkpoint(self):
        command = "muster run --local 2 --name t --state-dir state -- python train.py"
        process = self.start("exec " + command)
        saved = lambda: list(self.folder.glob("state/t/checkpoints/step-*.json"))
        self.wait(saved, "a checkpoint")
        process.send_signal(signal.SIGTERM)
        self.assertIn("muster: the run was stopped", self.end(process, command, 123))
        newest = max(json.loads(path.read_text())["step"] for path in saved())
        self.assertIn(f"goes on from step {newest} ", self.shell(command))
        self.assertIn("succeeded in attempt 1 and is not repeated", self.shell(command))


class Scripts(ReaderTest):
    def test_every_script_is_one(self):
        scripts = list(documents.scripts())
        self.assertGreater(len(scripts), 5)
        for script in scripts:
            with self.subTest(str(script)):
                (self.folder / "job.sh").write_text(script.text)
                self.shell("bash -n job.sh")
                self.assertIn("sbatch", self.shell("muster submit --dry-run job.sh"))

    def test_settings_of_the_site_are_settings(self):
        known = json.loads(self.shell("muster config --json"))
        seen = 0
        for page in documents.pages_with_commands():
            for line, language, lines in documents.code_blocks(page):
                if language != "conf":
                    continue
                for text in lines:
                    if "=" in text and not text.startswith(("optional", "required")):
                        seen += 1
                        self.assertIn(text.split("=")[0].strip(), known, f"{page}:{line}")
        self.assertGreater(seen, 2)


if __name__ == "__main__":
    main()
