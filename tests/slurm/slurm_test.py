"""What every test on the testbed's Slurm shares: one cluster that stays up, jobs of an ordinary user, and
after each test a clean cluster - checked, not only made, since what is left behind is a fault."""

import os
import pathlib
import re
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))

from testbed_lib.driver import FINISHED, Driver, json_lines  # noqa: E402,F401
from testbed_lib.layout import TestbedError  # noqa: E402

NODES = ["n1", "n2", "n3", "n4", "n5"]
# What a host of the testbed always runs; all else after a test is a leftover.
DAEMONS = re.compile(r"slurmd|slurmctld|slurmdbd|slurmstepd|munged|mariadbd|muster-testbed")


class SlurmTest(unittest.TestCase):
    driver = Driver(ROOT)

    def setUp(self):
        self.folder = self.driver.folder(f"test-{self.id().split('.')[-1]}-{time.monotonic_ns()}")
        self.addCleanup(self._clean_cluster)

    # ---- what a test does

    def submit(self, *lines, options=(), head=()):
        """Submits a script made of #SBATCH lines (head) and commands; output goes to slurm-J.out."""
        text = "\n".join(["#!/bin/bash", *[f"#SBATCH {line}" for line in head], *lines, ""])
        job = self.driver.sbatch(text, *options, folder=self.folder)
        self.jobs = getattr(self, "jobs", []) + [job]
        return job

    def output(self, job):
        path = self.folder / f"slurm-{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def finish(self, job, limit_s, state="COMPLETED"):
        """Waits for the end and asserts the state; the job's output is in the failure."""
        try:
            reached = self.driver.wait_state(job, FINISHED, limit_s)
        except TestbedError as error:
            self.fail(f"{error}\n{self.output(job)}")
        self.assertEqual(reached, state, self.output(job))
        return self.output(job)

    def wait(self, condition, limit_s, what, job=None):
        try:
            return self.driver.wait_for(condition, limit_s, what)
        except TestbedError as error:
            self.fail(f"{error}\n{self.output(job) if job else ''}")

    def wait_step(self, step, limit_s=60, name="train.jsonl", job=None):
        """Waits until the training told that this step is finished."""
        return self.wait(lambda: any(e.get("event") == "step" and e["step"] >= step
                                     for e in json_lines(self.folder / name)),
                         limit_s, f"step {step}", job)

    def batch_host(self, job):
        return self.driver.job(job)["BatchHost"]

    def exit_code(self, job):
        return int(self.driver.job(job)["ExitCode"].split(":")[0])

    def data(self):
        """A text of some 300 kB for the training, made once."""
        path = self.driver.shared / "corpus.txt"
        if not path.exists():
            licences = sorted(pathlib.Path("/usr/share/common-licenses").iterdir())
            text = b"".join(f.read_bytes() for f in licences if not f.is_symlink())
            partial = path.with_suffix(".partial")
            partial.write_bytes(text)
            os.chmod(partial, 0o644)
            partial.rename(path)
        return path

    # ---- afterwards

    def leftovers(self):
        """(host, pid, command line) of what no daemon of the testbed is."""
        return [(host, pid, line) for host in NODES + ["ctl"] for pid, line in self._safely(host)
                if not DAEMONS.search(line)]

    def _safely(self, host):
        try:
            return self.driver.processes(host)
        except TestbedError:
            return []  # it is off

    def assert_nothing_left(self, limit_s=15):
        self.wait(lambda: not self.leftovers(), limit_s, "no process of the job to be left: "
                  f"{self.leftovers()}")

    def _clean_cluster(self):
        for job in getattr(self, "jobs", []):
            if self.driver.state(job) not in FINISHED + ("UNKNOWN",):
                self.driver.run("ctl", "scancel", str(job), check=False)
        self.driver.testbed("unblock")
        for host in self.driver.status()["hosts"]:
            if host["power"] == "off":
                self.driver.testbed("power-on", host["host"])
            elif host["link"] == "down":
                self.driver.testbed("link", host["host"], "up")
        self.driver.wait_for(self._all_idle, 60, "all nodes to be idle again")
        self.assert_nothing_left()

    def _all_idle(self):
        states = self.driver.run("ctl", "sinfo", "-h", "-N", "-o", "%T").stdout.split()
        return states and all(state == "idle" for state in states)
