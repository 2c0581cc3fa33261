"""What people read of a job and do to it, from the login node: why, jobs, logs, restart, cancel."""

import json
import unittest

from slurm_test import SlurmTest


class Operate(SlurmTest):
    def muster(self, *words, code=0):
        done = self.driver.run("ctl", "muster", *words, cwd=self.folder, check=False)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def test_restart_why_and_cancel_from_the_login_node(self):
        job = self.submit("exec muster run -- sh -c 'echo round $MUSTER_ROUND; exec sleep 60'",
                          head=["--nodes=2", "--exclusive"])
        name = str(job)
        self.wait(lambda: "round 1" in self.output(job), 30, "the first round", job)
        self.assertIn(f"restart run1 of job {job}", self.muster("restart", name).stderr)
        self.wait(lambda: "round 2" in self.output(job), 20, "the second round", job)
        self.assertIn("an operator restarted the round", self.muster("why", name).stdout)
        listed = json.loads(self.muster("jobs", "--json").stdout)["jobs"]
        self.assertEqual([entry["state"] for entry in listed if entry["job"] == name], ["running"])
        self.assertIn("round 2", self.muster("logs", "--rank", "1", name).stdout)
        self.muster("cancel", name)
        self.finish(job, 30, "FAILED")
        self.assertEqual(self.exit_code(job), 123)
        self.assertIn("run1: the run was stopped: an operator ended the run", self.muster("why", name).stdout)
        self.assertIn("nothing to cancel", self.muster("cancel", name, code=1).stderr)


if __name__ == "__main__":
    unittest.main()
