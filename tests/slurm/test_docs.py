"""The batch scripts and sbatch lines that README.md and docs/ show, run as they are but for sizes that do not fit."""

import sys
import unittest

from slurm_test import ROOT, SlurmTest

sys.path.insert(0, str(ROOT / "tests" / "docs"))

import documents  # noqa: E402
from homes import HOMES  # noqa: E402

# What the pages show, and what the testbed has instead.
REPLACED = {
    "--gpus-per-node=8": "--gpus-per-node=2",
    "-- python ": "-- python3 ",
    "source ~/venv/bin/activate": "source ./venv/bin/activate",
}


def fitted(text):
    for shown, ours in REPLACED.items():
        text = text.replace(shown, ours)
    return text


class Docs(SlurmTest):
    def setUp(self):
        super().setUp()
        (self.folder / "train.py").write_text(documents.program())
        activate = self.folder / "venv" / "bin" / "activate"
        activate.parent.mkdir(parents=True)
        activate.write_text("export ACTIVATED=yes\n")
        for path in [self.folder / "train.py", *self.folder.rglob("venv/**/*"), self.folder / "venv"]:
            path.chmod(0o755)

    def test_every_script_completes(self):
        jobs = {}
        for script in documents.scripts():
            job = self.driver.sbatch(fitted(script.text), folder=self.folder)
            self.jobs = getattr(self, "jobs", []) + [job]
            jobs[job] = str(script)
        self.assertGreater(len(jobs), 5)
        for job, script in jobs.items():
            with self.subTest(script):
                self.assertIn("muster: the run succeeded", self.finish(job, 90))

    def test_every_line_that_submits(self):
        for place, command in documents.command_lines():
            if command not in HOMES or HOMES[command].kind != "dry":
                continue
            with self.subTest(f"{place}: {command}"):
                done = self.driver.run("ctl", "sh", "-c", fitted(command), cwd=self.folder)
                job = int(done.stdout.split()[-1])
                self.jobs = getattr(self, "jobs", []) + [job]
                self.assertIn("muster: the run succeeded", self.finish(job, 60))
                status = self.driver.run("ctl", "muster", "status", str(job), cwd=self.folder)
                self.assertIn("succeeded, exit code 0", status.stdout)


if __name__ == "__main__":
    unittest.main()
