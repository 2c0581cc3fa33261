"""After scancel, after SIGKILL of keeper or supervisor, and after the end: no process of the job is left on any
host, double-forked grandchildren in sessions of their own included; strangers live. And no secret is to be seen."""

import pathlib
import signal
import unittest

from slurm_test import NODES, SlurmTest

# A worker whose grandchild leaves it: two forks and a session of its own, as daemons do.
DAEMON = ("import os,time,sys\n"
          "if os.fork() == 0:\n"
          "    os.setsid()\n"
          "    if os.fork() == 0:\n"
          "        os.execvp('sleep', ['sleep', '4217'])\n"
          "    os._exit(0)\n"
          "os.wait()\n"
          "time.sleep(float(sys.argv[1]))\n")


class Ends(SlurmTest):
    def start(self, seconds, *options):
        script = self.folder / "daemon.py"
        script.write_text(DAEMON)
        job = self.submit(f"exec muster run --workers-per-node 2 {' '.join(options)} -- python3 {script} {seconds}",
                          head=["--nodes=2", "--exclusive"])
        self.wait(lambda: len(self.grandchildren()) >= 4, 60, "the grandchildren to live", job)
        return job

    def grandchildren(self):
        return [item for host in NODES for item in self.driver.processes(host, r"^sleep 4217")]

    def stranger(self, host):
        """A process of the same user on the same host that is none of the run's."""
        self.driver.run(host, "sh", "-c", "setsid sleep 4218 > /dev/null 2>&1 < /dev/null & sleep 0.2")
        return self.driver.processes(host, r"^sleep 4218")[0][0]

    def end_stranger(self, pid):
        self.assertTrue(pathlib.Path(f"/proc/{pid}").exists(), "a process of no run was ended")
        self.driver.kill(pid)

    def test_scancel(self):
        job = self.start(60)
        stranger = self.stranger("n1")
        self.driver.run("ctl", "scancel", str(job))
        self.finish(job, 30, "CANCELLED")
        self.wait(lambda: not self.grandchildren(), 15, "the grandchildren to be gone")
        self.end_stranger(stranger)
        self.assert_nothing_left()

    def test_the_end(self):
        job = self.start(3)
        self.finish(job, 40)
        self.assertEqual(self.grandchildren(), [])
        self.assert_nothing_left()

    def kill_one(self, pattern):
        job = self.start(12)
        before = {pid for pid, _ in self.grandchildren()}
        stranger = self.stranger("n2")
        victims = [(host, pid) for host in NODES for pid, line in self.driver.processes(host, pattern)]
        host, pid = victims[-1]
        own = {child for child, _ in self.driver.processes(host, r"^sleep 4217")}
        self.driver.kill(pid, signal.SIGKILL)
        self.wait(lambda: not own & {child for child, _ in self.grandchildren()}, 20,
                  "the grandchildren of the killed one to be gone", job)
        output = self.finish(job, 60)
        self.assertTrue(before)
        # A new agent on the same node: neither patience nor a requeue is spent.
        self.assertIn("round 2: 4 workers on 2 nodes", output)
        self.assertEqual(self.driver.job(job)["Restarts"], "0", output)
        self.end_stranger(stranger)
        self.assert_nothing_left()

    def test_kill_of_a_supervisor(self):
        self.kill_one(r"muster agent-supervisor")

    def test_kill_of_a_keeper(self):
        self.kill_one(r"muster agent($| )")

    def test_secrets_are_nowhere(self):
        job = self.start(8)
        operator = list(self.folder.rglob("operator.json"))
        self.assertEqual(len(operator), 1)
        self.assertEqual(operator[0].stat().st_mode & 0o077, 0)
        secrets = [word for word in operator[0].read_text().replace('"', " ").split() if len(word) == 64]
        self.assertEqual(len(secrets), 1, "the operator's secret")
        seen = []
        for host in NODES:
            for pid, line in self.driver.processes(host):
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
                # srun hands the secret on to its tasks; only its own user can look at it.
                if "slurm" not in line and not line.startswith("/usr/bin/srun "):
                    self.assertNotRegex(environment, "MUSTER_JOIN_SECRET=[0-9a-f]", line)
                seen.append(line + environment)
        for text in seen:
            self.assertNotIn(secrets[0], text)
        for file in self.folder.rglob("*"):
            if file.is_file() and file.name != "operator.json":
                self.assertNotIn(secrets[0].encode(), file.read_bytes(), str(file))
        self.finish(job, 40)


if __name__ == "__main__":
    unittest.main()
