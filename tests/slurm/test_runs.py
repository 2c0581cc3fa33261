"""`muster run` inside a job: the worker's view, spares, several runs in one script, bad input."""

import json
import re
import unittest

from slurm_test import NODES, SlurmTest

ASKS = """
import os, signal, socket, struct, subprocess, time
if os.environ["MUSTER_ATTEMPT"] == "1":
    print("rank", os.environ["RANK"], "came back", flush=True)
    raise SystemExit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM; sleep 200"])
agent = socket.socket(socket.AF_UNIX)
agent.connect(os.environ["MUSTER_AGENT_SOCKET"])
frame = lambda kind, payload: agent.sendall(struct.pack("<IHH", len(payload), kind, 1) + payload)
frame(1, struct.pack("<Ii", 0, os.getpid()))
reason = b"the licence server is away"
if os.environ["RANK"] == "3":
    frame(20, struct.pack("<QBI", 1, 0, len(reason)) + reason)
time.sleep(300)
"""


class Runs(SlurmTest):
    def test_every_worker_has_one_consistent_view(self):
        job = self.submit(
            "muster run --workers-per-node 2 -- sh -c "
            "'echo view $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $SLURM_PROCID $SLURM_NTASKS "
            "$SLURM_LOCALID $SLURM_NODEID $MASTER_ADDR:$MASTER_PORT $(hostname)'", head=["--nodes=4", "--exclusive"])
        views = sorted((line.split("view ", 1)[1].split() for line in self.finish(job, 60).splitlines()
                        if "view " in line), key=lambda view: int(view[0]))
        self.assertEqual([view[0] for view in views], [str(rank) for rank in range(8)])
        self.assertEqual({view[1] for view in views}, {"8"})
        self.assertEqual([view[2] for view in views], ["0", "1"] * 4)
        self.assertEqual({view[3] for view in views}, {"2"})
        self.assertEqual([view[4] for view in views], [str(rank // 2) for rank in range(8)])
        self.assertEqual([view[5] for view in views], [view[0] for view in views])
        self.assertEqual({view[6] for view in views}, {"8"})
        self.assertEqual([view[7] for view in views], ["0", "1"] * 4)
        self.assertEqual([view[8] for view in views], [str(rank // 2) for rank in range(8)])
        self.assertEqual(len({view[9] for view in views}), 1)
        self.assertTrue(views[0][9].startswith("10.77.1."), views[0][9])
        self.assertEqual(len({view[10] for view in views}), 4)

    def test_two_nodes_too_many_wait_as_spares_and_end_with_0(self):
        job = self.submit("muster run -N 3 --spares 2 --workers-per-node 1 -- sh -c 'echo rank $RANK of $WORLD_SIZE; sleep 2'",
                          head=["--nodes=5", "--exclusive"])
        output = self.finish(job, 60)
        self.assertEqual(self.exit_code(job), 0)
        self.assertEqual(sorted(re.findall(r"rank \d of \d", output)), ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"])
        self.assertNotIn("error", output.lower())

    def test_side_by_side_and_one_after_repeat_only_what_had_not_succeeded(self):
        note = f"{self.folder}/note"
        job = self.submit(
            f"muster run --name left -N 2 --workers-per-node 1 -- sh -c 'echo left >> {note}' &",
            f"muster run --name right -N 2 --workers-per-node 1 -- sh -c 'echo right >> {note}' &",
            "wait",
            # The first attempt of the last run waits for the requeue; the second ends at once.
            f"muster run --name last --workers-per-node 2 -- sh -c 'echo last >> {note}; [ $MUSTER_ATTEMPT = 1 ] || sleep 60'",
            head=["--nodes=4", "--exclusive", "--requeue", "--open-mode=append"])
        path = self.folder / "note"
        self.wait(lambda: path.exists() and path.read_text().count("last") == 8, 60, "the last run to start", job)
        self.driver.run("ctl", "scontrol", "requeue", str(job))
        self.finish(job, 90)
        words = path.read_text().split()
        self.assertEqual(words.count("left"), 2)
        self.assertEqual(words.count("right"), 2)
        self.assertEqual(words.count("last"), 16)

    def test_a_program_asks_for_a_requeue_and_the_daemon_decides(self):
        """By frames of proto/local.h; the workers ignore TERM and hold a grandchild in a session of its own."""
        (self.folder / "asks.py").write_text(ASKS)
        job = self.submit("exec muster run --workers-per-node 2 --stop-grace 2s -- python3 asks.py",
                          head=["--nodes=2", "--exclusive", "--requeue", "--open-mode=append"])
        output = self.finish(job, 90)
        self.assertEqual(self.driver.job(job)["Restarts"], "1", output)
        self.assertIn("the licence server is away", output)
        self.assertEqual(output.count("came back"), 4, output)

    def test_a_request_that_slurm_cannot_grant_is_refused_and_the_run_goes_on(self):
        (self.folder / "asks.py").write_text(ASKS.replace("time.sleep(300)", "time.sleep(3); print('trains on', flush=True)"))
        job = self.submit("exec muster run --workers-per-node 2 --stop-grace 2s -- python3 asks.py",
                          head=["--nodes=2", "--exclusive", "--no-requeue"])
        output = self.finish(job, 60)
        self.assertEqual(output.count("trains on"), 4, output)

    def test_bad_input_is_one_clear_sentence_before_anything_runs(self):
        table = [
            ("-N 4:2", 64, "4:2"),
            ("-N 9", 64, "9"),
            ("--workers-per-node 0", 64, "workers-per-node"),
            ("--lease 0s", 64, "lease"),
            ("--state-dir /proc/nothing", 64, "/proc/nothing"),
            ("--no-such-option", 64, "no-such-option"),
        ]
        for options, code, word in table:
            with self.subTest(options):
                job = self.submit(f"muster run {options} -- sh -c 'echo it-ran'", head=["--nodes=2"])
                output = self.finish(job, 30, "FAILED")
                self.assertEqual(self.exit_code(job), code, output)
                self.assertIn(word, output)
                self.assertNotIn("it-ran", output)

    def test_program_not_found_names_program_and_node(self):
        job = self.submit("muster run -- /no/such/program", head=["--nodes=2"])
        output = self.finish(job, 30, "FAILED")
        self.assertEqual(self.exit_code(job), 127, output)
        self.assertIn("/no/such/program", output)
        self.assertRegex(output, r"\bn[1-5]\b")

    def test_outside_an_allocation(self):
        done = self.driver.run("ctl", "muster", "run", "--", "true", check=False)
        self.assertEqual(done.returncode, 64, done.stderr)
        self.assertIn("--local", done.stderr)

    def test_second_pass_as_root(self):
        """Every other job here is an ordinary user's."""
        text = ("#!/bin/bash\n#SBATCH --nodes=2 --exclusive\n"
                "muster run --workers-per-node 1 -- sh -c "
                "'[ $MUSTER_ROUND = 1 ] && [ $RANK = 1 ] && kill -9 $$; sleep 1; echo user $(id -u)'\n")
        job = self.driver.sbatch(text, folder=self.folder, root=True)
        self.jobs = [job]
        output = self.finish(job, 60)
        self.assertEqual(output.count("user 0"), 2, output)
        self.assertIn("round 2", output)

    def test_exit_code_of_the_first_failing_worker(self):
        job = self.submit("muster run --workers-per-node 2 -- sh -c 'if [ $RANK = 2 ]; then echo broken >&2; exit 7; "
                          "fi; sleep 30'", head=["--nodes=2"])
        output = self.finish(job, 40, "FAILED")
        self.assertEqual(self.exit_code(job), 7, output)
        self.assertIn("rank 2", output)

    def test_status_works_from_the_controller_while_and_after(self):
        job = self.submit("muster run --name shown -- sleep 5", head=["--nodes=2"])
        self.wait(lambda: self.driver.run("ctl", "muster", "status", str(job), check=False,
                                          cwd=self.folder).returncode == 0, 30, "a status", job)
        self.finish(job, 40)
        done = self.driver.run("ctl", "muster", "status", "--json", str(job), cwd=self.folder)
        self.assertEqual(json.loads(done.stdout)["verdict"]["outcome"], "succeeded", done.stdout)


class Submit(SlurmTest):
    def test_submit_prints_the_id_and_the_job_runs(self):
        done = self.driver.run("ctl", "muster", "submit", "-N", "2", "--", "sh", "-c", "echo rank $RANK", cwd=self.folder)
        job = int(done.stdout.split()[-1])
        self.jobs = [job]
        output = self.finish(job, 60)
        self.assertIn("rank 0", output)
        self.assertIn("rank 1", output)

    def test_missing_output_folder_is_named_before_submission(self):
        done = self.driver.run("ctl", "muster", "submit", "-N", "2", "-o", "logs/%j.out", "--", "true",
                               cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 64, done.stdout)
        self.assertIn("logs", done.stderr)


if __name__ == "__main__":
    unittest.main()
