"""A training of muster-train in a job of the testbed: what it told, faults brought upon it, and what they cost.
Used by scripts/demo and scripts/chaos."""

import collections
import json
import pathlib
import re
import time

from testbed_lib.driver import FINISHED, json_lines
from testbed_lib.layout import TestbedError


class TrainingJob:
    """One training job and what it told."""

    def __init__(self, driver, name, nodes, options, text, steps, checkpoint_every=20, step_ms=80, more="", tell=None):
        self.driver, self.name, self.tell = driver, name, tell
        self.folder = driver.folder(f"{re.sub('[^a-z]+', '-', name)}-{time.monotonic_ns()}")
        self.events_file = self.folder / "train.jsonl"
        self.faults = []  # (unix ms, sentence)
        script = "\n".join([
            "#!/bin/bash",
            f"#SBATCH --nodes={nodes} --exclusive --requeue --no-kill --open-mode=append",
            f"#SBATCH --output={self.folder}/job.out",
            f"exec muster run --workers-per-node 2 {options} -- muster-train --data {text} --steps {steps} "
            f"--checkpoint-every {checkpoint_every} --step-time-min {step_ms} --json-lines {self.events_file} {more}",
            ""])
        self.id = driver.sbatch(script, folder=self.folder)

    def output(self):
        path = self.folder / "job.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def events(self, kind=None):
        return [e for e in json_lines(self.events_file) if kind is None or e.get("event") == kind]

    def verdicts(self):
        """The verdict of each attempt that has ended, by attempt."""
        paths = self.folder.rglob("verdict-*.json")
        return {int(path.stem.split("-")[1]): json.loads(path.read_text())["verdict"] for path in paths}

    def newest_step(self):
        return max((e["step"] for e in self.events("step")), default=-1)

    def wait_step(self, step, limit_s=120):
        self.driver.wait_for(lambda: self.newest_step() >= step, limit_s,
                             f"step {step} of job {self.id}; its output is {self.folder}/job.out")

    def fault(self, sentence, act):
        if self.tell:
            self.tell(f"  {sentence}")
        self.faults.append((time.time() * 1000, sentence))
        act()

    def kill_rank(self, rank):
        place = self.driver.worker(rank, self.driver.nodes(), self.id)
        if place is None:
            raise TestbedError(f"job {self.id}: rank {rank} lives nowhere; its output is {self.folder}/job.out")
        host, pid = place
        self.fault(f"SIGKILL of rank {rank} on {host}", lambda: self.driver.kill(pid))

    def nodes_of_ranks(self):
        """Hosts with living workers, in the order of their ranks."""
        workers = self.driver.workers(self.driver.nodes(), self.id)
        return list(dict.fromkeys(host for _, (host, _) in sorted(workers.items())))

    def batch_host(self):
        return self.driver.job(self.id).get("BatchHost")

    def power_off_a_node(self):
        """Any node of the world but the batch host."""
        batch = self.batch_host()
        for host in self.nodes_of_ranks():
            if host != batch:
                self.fault(f"power-off of {host}", lambda: self.driver.testbed("power-off", host))
                return host
        raise TestbedError(f"job {self.id}: no rank lives outside the batch host {batch}")

    def finish(self, limit_s=240):
        return self.driver.wait_state(self.id, FINISHED, limit_s)

    def first_step_after(self, unix_ms):
        """Seconds from then to the first step of the next round; None if there was no round."""
        rounds = [e["unix_ms"] for e in self.events("round") if e["unix_ms"] > unix_ms]
        if not rounds:
            return None
        after = [e["unix_ms"] for e in self.events("step") if e["unix_ms"] >= rounds[0]]
        return (after[0] - unix_ms) / 1000 if after else None

    def steps_repeated(self, begin_ms=0, end_ms=float("inf")):
        counted = collections.Counter()
        repeated = 0
        for event in self.events("step"):
            counted[event["step"]] += 1
            repeated += counted[event["step"]] > 1 and begin_ms <= event["unix_ms"] < end_ms
        return repeated


def corpus(driver, name):
    """(path, bytes) of a text of at least 300 kB: the licences that every Debian has, and Perl's list of messages."""
    sources = sorted(p for p in pathlib.Path("/usr/share/common-licenses").iterdir() if not p.is_symlink())
    sources += sorted(pathlib.Path("/usr/share/perl").glob("*/pod/perldiag.pod"))
    sources += sorted(pathlib.Path("/usr/share/perl").glob("*/perl5db.pl"))
    text = b"".join(path.read_bytes() for path in sources)
    if len(text) < 300_000:
        raise TestbedError(f"only {len(text)} bytes of text were found in {sources}; install perl")
    path = driver.shared / f"{name}-corpus.txt"
    path.write_bytes(text)
    path.chmod(0o644)
    return path, text
