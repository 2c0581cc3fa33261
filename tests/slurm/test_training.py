"""Training through faults on real Slurm: ranks killed, nodes powered off, requeue; and the same bits at the end."""

import re
import shutil
import unittest

from slurm_test import NODES, ROOT, SlurmTest, json_lines

STEPS = 150


class Training(SlurmTest):
    def train(self, *run_options, nodes=4, head=(), options=(), backend="gloo", name="train.jsonl", steps=STEPS,
              step_ms=80):
        """Submits a training of 2 ranks a node; slow enough that a fault falls into it."""
        library = f"--nccl-library {self.standin()} " if backend == "nccl" else ""
        program = (f"muster-train {library} --data {self.data()} --steps {steps} --checkpoint-every 20 --backend {backend} "
                   f"--step-time-min {step_ms} --json-lines {self.folder}/{name} --print-digest")
        return self.submit(
            f"exec muster run --workers-per-node 2 {' '.join(run_options)} -- {program}",
            head=[f"--nodes={nodes}", "--exclusive", "--open-mode=append", "--requeue", *head], options=options)

    def standin(self):
        """The NCCL and CUDA stand-in, where every host sees it."""
        folder = self.driver.shared / "standin"
        if not folder.exists():
            shutil.copytree(ROOT / "build" / "lib" / "standin", folder)
            for path in [folder, *folder.iterdir()]:
                path.chmod(0o755)
        return folder

    def digest(self, text):
        found = re.findall(r"weights digest: ([0-9a-f]{32})", text)
        self.assertTrue(found, text)
        return found[-1]

    def kill_rank(self, job, rank):
        host, pid = self.wait(lambda: self.driver.worker(rank, NODES, job), 30, f"rank {rank} to live", job)
        self.driver.kill(pid)
        return host

    def power_off_other_than_batch_host(self, job, ranks=(1, 2, 3, 4, 5)):
        batch = self.batch_host(job)
        for rank in ranks:
            place = self.driver.worker(rank, NODES, job)
            if place and place[0] != batch:
                self.driver.testbed("power-off", place[0])
                return place[0]
        self.fail("no rank lives outside the batch host")

    def steps_repeated(self, name="train.jsonl"):
        seen, repeated = -1, 0
        for event in json_lines(self.folder / name):
            if event.get("event") == "step":
                repeated += event["step"] <= seen
                seen = max(seen, event["step"])
        return repeated

    def rounds(self, name="train.jsonl"):
        return [event for event in json_lines(self.folder / name) if event.get("event") == "round"]

    def through_faults(self, backend, head):
        """A rank killed, then a node powered off, with one spare; against an undisturbed run."""
        job = self.train("--spares", "1", backend=backend, head=head)
        self.wait_step(20, job=job)
        self.kill_rank(job, 3)
        self.wait(lambda: len(self.rounds()) >= 2, 30, "a second round", job)
        self.wait_step(45, job=job)
        self.power_off_other_than_batch_host(job)
        disturbed = self.finish(job, 120)
        self.assertGreaterEqual(len(self.rounds()), 3, disturbed)
        self.assertLessEqual(self.steps_repeated(), 2, disturbed)
        return self.digest(disturbed)

    def undisturbed(self, backend):
        job = self.train(nodes=3, backend=backend, name="calm.jsonl", step_ms=0)
        return self.digest(self.finish(job, 120))

    def test_spare_takes_over_and_bits_are_the_same_with_no_kill(self):
        disturbed = self.through_faults("gloo", ["--no-kill"])
        self._power_on_all()
        self.assertEqual(disturbed, self.undisturbed("gloo"))

    def test_spare_takes_over_without_no_kill(self):
        self.through_faults("gloo", [])

    def test_same_bits_through_the_nccl_backend(self):
        disturbed = self.through_faults("nccl", ["--no-kill"])
        self._power_on_all()
        self.assertEqual(disturbed, self.undisturbed("nccl"))

    def test_lost_node_without_spare_is_requeued_without_it_and_resumes(self):
        job = self.train("--wait-node", "3s", nodes=3)
        self.wait_step(45, job=job)
        lost = self.power_off_other_than_batch_host(job, ranks=(1, 2, 3, 4))
        output = self.finish(job, 150)
        self.assertEqual(self.driver.job(job)["Restarts"], "1", output)
        attempts = sorted({event["attempt"] for event in self.rounds()})
        self.assertEqual(attempts, [0, 1], output)
        resumed = [event for event in json_lines(self.folder / "train.jsonl") if event.get("event") == "resume"]
        newest = max(e["step"] for e in json_lines(self.folder / "train.jsonl") if e.get("event") == "checkpoint"
                     and e["unix_ms"] < resumed[-1]["unix_ms"])
        self.assertEqual(resumed[-1]["step"], newest, output)
        self.assertGreaterEqual(newest, 40, output)
        self.assertNotIn(lost, self.driver.job(job)["NodeList"])
        self.assertEqual(max(e["step"] for e in json_lines(self.folder / "train.jsonl") if e.get("event") == "step"),
                         STEPS, output)
        self._power_on_all()
        self.assertEqual(self.digest(output), self.undisturbed("gloo"))

    def test_scancel_loses_no_step(self):
        """Slurm's TERM and the agent's come one after the other; the step at which all stop is saved."""
        job = self.train("--stop-grace", "5s", nodes=2)
        self.wait_step(27, job=job)
        self.driver.run("ctl", "scancel", str(job))
        output = self.finish(job, 40, "CANCELLED")
        events = json_lines(self.folder / "train.jsonl")
        last = max(e["step"] for e in events if e.get("event") == "step")
        self.assertEqual(max(e["step"] for e in events if e.get("event") == "checkpoint"), last, output)
        self.assertLess(last, STEPS, output)

    def _power_on_all(self):
        for host in self.driver.status()["hosts"]:
            if host["power"] == "off":
                self.driver.testbed("power-on", host["host"])


if __name__ == "__main__":
    unittest.main()
