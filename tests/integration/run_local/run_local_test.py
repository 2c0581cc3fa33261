"""muster run --local, from the outside: exit codes, restarts, ends, and that nothing is left."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from marked_test import PATIENCE, MarkedTest  # noqa: E402

MUSTER = None


class LocalTest(MarkedTest):
    def start(self, *words, **environment):
        return subprocess.Popen([MUSTER, *words], cwd=self.folder, env={**self.environment, **environment},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process):
        try:
            output, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            self.fail(f"no end within {PATIENCE} s\n{output}\n{errors}")
        self.errors = errors
        return output

    def muster(self, *words, code=0, **environment):
        process = self.start(*words, **environment)
        output = self.end(process)
        self.assertEqual(process.returncode, code, f"{' '.join(words)}\n{output}\n{self.errors}")
        return output

    def assert_nothing_left(self, limit=15):
        self.wait(lambda: not self.marked(), "no process to be left", limit)
        self.assertEqual([path for path in (self.folder / "tmp").rglob("*") if path.is_file() or path.is_socket()], [],
                         "files of the run in the temporary folder")

    def notes(self):
        path = self.folder / "notes"
        return path.read_text().split("\n")[:-1] if path.exists() else []


NOTE = 'echo "$RANK $$ $MUSTER_ROUND" >> notes; '


class Ends(LocalTest):
    def test_every_rank_has_its_place(self):
        output = self.muster("run", "--local", "2x2", "--", "sh", "-c",
                             "echo view $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR")
        views = sorted(line.split("view ", 1)[1] for line in output.splitlines() if "view " in line)
        self.assertEqual([view.split()[:5] for view in views],
                         [["0", "4", "0", "2", "0"], ["1", "4", "1", "2", "0"], ["2", "4", "0", "2", "1"],
                          ["3", "4", "1", "2", "1"]], output)
        self.assertEqual(len({view.split()[5] for view in views}), 1)
        self.assert_nothing_left()

    def test_words_behind_the_program_are_its_own(self):
        output = self.muster("run", "--local", "echo", "--local", "-N4", "--", "--help")
        self.assertIn("--local -N4 -- --help", output)

    def test_the_first_failing_workers_code(self):
        self.muster("run", "--local", "2x2", "--", "sh", "-c", '[ "$RANK" = 2 ] && echo broken && exit 7; sleep 60', code=7)
        self.assertIn("rank 2", self.errors)
        logs = re.search(r"the workers' output is in (\S+)", self.errors).group(1)
        self.assertTrue([path for path in pathlib.Path(logs).rglob("*")
                         if path.is_file() and "broken" in path.read_text()], logs)
        self.assert_nothing_left()

    def test_without_a_path_the_program_is_where_execvp_finds_it(self):
        self.environment.pop("PATH")
        self.assertIn("found 0", self.muster("run", "--local", "1", "--", "sh", "-c", "echo found $RANK"))

    def test_a_state_folder_of_two_lines(self):
        self.muster("run", "--local", "1", "--state-dir", "a\nb", "--", "true")

    def test_a_signal_is_128_and_its_number(self):
        self.muster("run", "--local", "1", "--", "sh", "-c", "kill -SEGV $$", code=139)

    def test_program_not_found_is_named_with_its_node(self):
        self.muster("run", "--local", "2x1", "--", "/no/such/program", code=127)
        self.assertIn("/no/such/program", self.errors)
        self.assertIn("local", self.errors)
        self.assert_nothing_left()

    def test_double_forked_grandchildren_end_with_the_run(self):
        self.muster("run", "--local", "1x2", "--", "sh", "-c", "(setsid sleep 4219 > /dev/null 2>&1 &) ; sleep 0.3")
        self.assert_nothing_left()


class Failures(LocalTest):
    def forever_in_round_one(self, *options):
        process = self.start("run", *options, "--local", "2x2", "--", "sh", "-c",
                             # Round 2 lasts long enough for the host to look at it.
                             NOTE + 'if [ "$MUSTER_ROUND" = 1 ]; then exec sleep 600; fi; sleep 1')
        self.wait(lambda: len(self.notes()) >= 4 or process.poll() is not None, "four workers")
        self.assertIsNone(process.poll(), process.returncode)
        return process

    def ends_well(self, process):
        output = self.end(process)
        self.assertEqual(process.returncode, 0, f"{output}\n{self.errors}")
        self.assert_nothing_left()

    def test_a_killed_worker_is_a_new_round(self):
        process = self.forever_in_round_one()
        pid = int(next(note for note in self.notes() if note.startswith("1 ")).split()[1])
        os.kill(pid, signal.SIGKILL)
        self.ends_well(process)
        self.assertEqual(sorted(note.split()[0] for note in self.notes() if note.endswith(" 2")), ["0", "1", "2", "3"])
        self.assertIn("rank 1", self.errors)

    def test_a_killed_daemon_is_started_again_and_workers_notice_nothing(self):
        process = self.start("run", "--local", "2x2", "--", "sh", "-c", NOTE + "sleep 6")
        self.wait(lambda: len(self.notes()) >= 4, "four workers")
        daemon = [pid for pid, line in self.marked() if "rendezvousd" in line.split()[0]]
        self.assertEqual(len(daemon), 1)
        os.kill(daemon[0], signal.SIGKILL)
        self.ends_well(process)
        self.assertEqual(len(self.notes()), 4, "nobody was started again")
        self.assertIn("the daemon ended with signal 9", self.errors)

    def test_a_killed_supervisor_is_a_new_round(self):
        process = self.forever_in_round_one()
        supervisor = [pid for pid, line in self.marked() if "agent-supervisor" in line]
        self.assertEqual(len(supervisor), 2)
        os.kill(supervisor[0], signal.SIGKILL)
        self.ends_well(process)

    def test_a_killed_keeper_is_a_new_round(self):
        process = self.forever_in_round_one()
        keeper = [pid for pid, line in self.marked() if re.search(r"(muster|exe) agent$", line)]
        self.assertEqual(len(keeper), 2)
        os.kill(keeper[0], signal.SIGKILL)
        self.ends_well(process)

    def test_a_daemon_that_keeps_dying_ends_the_run_with_a_reason(self):
        self.muster("run", "--local", "1", "--", "sleep", "60", code=69, MUSTER_RENDEZVOUSD="/bin/false")
        self.assertIn("the daemon /bin/false ended 3 times", self.errors)
        self.assert_nothing_left()


    def test_a_daemon_that_is_no_program_is_named(self):
        (self.folder / "text").write_text("no program")
        (self.folder / "damaged").write_text("no program either")
        (self.folder / "damaged").chmod(0o755)
        for name in ("missing", "tmp", "text", "damaged"):
            with self.subTest(name):
                path = str(self.folder / name)
                output = self.muster("run", "--local", "--", "echo", "it-ran", code=69, MUSTER_RENDEZVOUSD=path)
                self.assertIn(path, self.errors)
                self.assertNotIn("it-ran", output)
        self.assert_nothing_left()

    def test_a_script_whose_interpreter_is_missing(self):
        script = self.folder / "train"
        script.write_text("#!/opt/no-such-python -u\n")
        script.chmod(0o755)
        self.muster("run", "--local", "2x1", "--", "./train", code=127)
        self.assertIn("/opt/no-such-python", self.errors)
        self.assertRegex(self.errors, r"local\d cannot take part")
        self.assert_nothing_left()

    def test_operators_without_a_daemon_are_answered_from_files(self):
        process = self.start("run", "--local", "--state-dir", "state", "--", "sh", "-c", NOTE + "exec sleep 600")
        self.wait(self.notes, "a worker")
        daemon = next(pid for pid, line in self.marked() if "rendezvousd" in line.split()[0])
        os.kill(daemon, signal.SIGSTOP)
        try:
            status = json.loads(self.muster("status", "--json", "state"))
        finally:
            os.kill(daemon, signal.SIGCONT)
        self.assertEqual(status["name"], "run1", status)
        process.send_signal(signal.SIGINT)
        self.end(process)
        self.assertEqual(process.returncode, 123, self.errors)


class Stops(LocalTest):
    def sleeping(self, program="exec sleep 600"):
        process = self.start("run", "--local", "2x2", "--stop-grace", "3s", "--", "sh", "-c", NOTE + program)
        self.wait(lambda: len(self.notes()) >= 4, "four workers")
        return process

    def stopped(self, process):
        output = self.end(process)
        self.assertEqual(process.returncode, 123, f"{output}\n{self.errors}")
        self.assert_nothing_left()

    def test_interrupt(self):
        process = self.sleeping()
        process.send_signal(signal.SIGINT)
        self.stopped(process)

    def test_terminate(self):
        process = self.sleeping()
        process.send_signal(signal.SIGTERM)
        self.stopped(process)

    def test_terminate_of_every_process_as_slurm_does(self):
        process = self.sleeping()
        for pid, _ in sorted(self.marked(), key=lambda item: item[0] == process.pid):
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass  # ended by its parent's signal before its own came
        self.stopped(process)
        self.assertNotIn("starts again", self.errors)

    def test_workers_that_ignore_term_are_killed_after_their_grace(self):
        process = self.sleeping("trap '' TERM; while :; do sleep 1; done")
        process.send_signal(signal.SIGINT)
        self.stopped(process)

    def test_three_interrupts_are_at_once(self):
        process = self.sleeping("trap '' TERM; while :; do sleep 1; done")
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        self.stopped(process)

    def test_while_the_daemon_is_dead(self):
        process = self.sleeping()
        daemon = next(pid for pid, line in self.marked() if "rendezvousd" in line.split()[0])
        os.kill(daemon, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        self.stopped(process)

    def test_a_killed_host_leaves_nothing(self):
        process = self.sleeping()
        process.kill()
        process.communicate()
        self.wait(lambda: not self.marked(), "no process to be left", 40)

    def test_a_hangup_ends_the_run_unless_nohup_started_it(self):
        process = self.sleeping()
        process.send_signal(signal.SIGHUP)
        self.stopped(process)
        (self.folder / "notes").unlink()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            process = self.start("run", "--local", "1", "--", "sh", "-c", NOTE + "sleep 3")
        finally:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.wait(self.notes, "a worker")
        process.send_signal(signal.SIGHUP)
        self.end(process)
        self.assertEqual(process.returncode, 0, self.errors)

    def test_a_usual_signal_of_slurm_is_no_end(self):
        process = self.start("run", "--local", "1", "--", "sh", "-c", NOTE + "sleep 3")
        self.wait(self.notes, "a worker")
        process.send_signal(signal.SIGUSR1)
        self.end(process)
        self.assertEqual(process.returncode, 0, self.errors)


class Inputs(LocalTest):
    def test_bad_input_is_one_clear_sentence_and_64(self):
        (self.folder / "file").write_text("")
        for words, inside in [
                (["--local=2y"], "2y"), (["--local", "--lease=0s"], "lease"), (["--no-such-option"], "no-such-option"),
                (["-N4:2"], "4:2"), (["--local", "--workers-per-node=0"], "workers-per-node"),
                (["--local", "--state-dir=/proc/nothing"], "/proc/nothing"), (["--local", "0"], "--local"),
                (["--local", "--state-dir=a\udcff"], "\\xff"), (["--local", "--env=A=\udcff"], "\\xff"),
                (["--local", "--state-dir=file/x"], "file/x"), (["--local", "--name=a/b"], "a/b"),
                (["--local", "-N3"], "--nodes 3"), ([], "--local")]:
            with self.subTest(words):
                output = self.muster("run", *words, "--", "echo", "it-ran", code=64)
                self.assertIn(inside, self.errors)
                self.assertNotIn("it-ran", output)
                self.assertTrue(all(line.startswith("muster: ") for line in self.errors.splitlines()), self.errors)
                self.assertLessEqual(len(self.errors.splitlines()), 2, self.errors)

    def test_no_program(self):
        self.muster("run", "--local", code=64)
        self.assertIn("PROGRAM", self.errors)

    def test_settings_name_their_source(self):
        (self.folder / "muster.conf").write_text("lease = 7s\n")
        self.assertIn(f"{self.folder}/muster.conf:1", self.muster("config"))
        self.assertEqual(json.loads(self.muster("config", "--json", MUSTER_LEASE="8s"))["lease"],
                         {"value": "8s", "source": "environment", "where": "MUSTER_LEASE"})
        self.muster("run", "--local", "--", "true", code=64, MUSTER_LEASE="never")
        self.assertIn("MUSTER_LEASE", self.errors)

    def test_unreadable_slurm_variables_are_named(self):
        job = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-2", "SLURM_JOB_NUM_NODES": "2"}
        self.muster("run", "--", "true", code=64, **job)
        self.assertIn("n[1-2", self.errors)
        job.update(SLURM_JOB_NODELIST="n[1-2]", SLURM_TASKS_PER_NODE="2(x", SLURM_NTASKS="4")
        self.muster("plan", "--", "true", code=64, **job)
        self.assertIn("SLURM_TASKS_PER_NODE", self.errors)

    def test_plan_tells_without_doing(self):
        plan = json.loads(self.muster("plan", "--json", "--local", "2x2", "--", "true"))
        self.assertEqual((plan["nodes"], plan["workers_per_node"]), (["local0", "local1"], 2))
        self.assertFalse((self.folder / ".muster").exists())
        job = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_JOB_NUM_NODES": "4"}
        text = self.muster("plan", "--spares", "1", "--", "true", **job)
        self.assertRegex(text, r"nodes +3 ")

    def test_help_and_version(self):
        self.assertIn("--workers-per-node", self.muster("run", "--help"))
        self.assertIn("muster run", self.muster("--help"))
        self.assertIn("muster run", self.muster(code=64))
        self.assertRegex(self.muster("version"), r"^muster \d+\.\d+\.\d+$")
        self.muster("no-such-command", code=64)

    def test_submit_dry_run_needs_no_slurm(self):
        text = self.muster("submit", "--dry-run", "-N", "4", "--spares", "1", "-p", "gpu", "--", "python", "a b.py")
        self.assertIn("--nodes=5", text)
        self.assertIn("--partition=gpu", text)
        self.assertIn("'a b.py'", text)
        self.muster("submit", "--dry-run", "-o", "logs/%j.out", "--", "true", code=64)
        self.assertIn("logs", self.errors)


class State(LocalTest):
    def test_what_succeeded_is_not_repeated(self):
        words = ["run", "--local", "--name", "x", "--state-dir", "state"]
        self.muster(*words, "--", "sh", "-c", NOTE + "exit 3", code=3)
        self.muster(*words, "--", "sh", "-c", NOTE)
        self.muster(*words, "--", "sh", "-c", NOTE)
        self.assertEqual(len(self.notes()), 2)
        self.assertIn("--again", self.errors)
        self.muster(*words, "--again", "--", "sh", "-c", NOTE)
        self.assertEqual(len(self.notes()), 3)

    def test_a_run_that_lives_is_not_started_twice(self):
        words = ["run", "--local", "--name", "x", "--state-dir", "state", "--", "sh", "-c", NOTE + "sleep 3"]
        process = self.start(*words)
        self.wait(self.notes, "a worker")
        self.muster(*words, code=64)
        self.assertIn("running already", self.errors)
        self.end(process)
        self.assertEqual(process.returncode, 0, self.errors)

    def test_status_while_it_runs_and_after(self):
        process = self.start("run", "--local", "2x1", "--state-dir", "state", "--", "sh", "-c", NOTE + "sleep 4")
        self.wait(lambda: len(self.notes()) == 2, "two workers")
        status = json.loads(self.muster("status", "--json", "state"))
        self.assertTrue(status["live"], status)
        self.assertEqual(status["world_size"], 2)
        self.assertIn("run1", self.muster("status"))
        self.end(process)
        status = json.loads(self.muster("status", "--json", "state"))
        self.assertFalse(status["live"])
        self.assertEqual(status["verdict"]["outcome"], "succeeded")

    def test_why_names_the_killed_rank_from_files_alone(self):
        process = self.start("run", "--local", "2x1", "--name", "x", "--state-dir", "state", "--", "sh", "-c",
                             NOTE + "echo working; sleep 30")
        notes = self.wait(lambda: self.notes() if len(self.notes()) == 2 else None, "two workers")
        victim = next(line.split() for line in notes if line.startswith("1 "))
        # A KILL from outside would be tried again.
        os.kill(int(victim[1]), signal.SIGSEGV)
        self.end(process)
        self.assertEqual(process.returncode, 139)
        why = self.muster("why", "state")
        self.assertRegex(why.splitlines()[0], r"^x: the run failed: rank 1 on local1 was killed by signal 11")
        self.assertIn("    | working\n", why)
        first = json.loads(self.muster("why", "--json"))["runs"][0]["first_failure"]
        self.assertEqual((first["rank"], first["node"], first["last_lines"][-1]), (1, "local1", "working"))
        self.assertIn("worker exited", [json.loads(line)["kind"] for line in self.muster("events", "--json").splitlines()])
        self.assertIn("rank-1.round-1.log", self.muster("logs"))
        self.assertEqual(self.muster("logs", "--first-failing"), "working\n")
        self.muster("logs", "--rank", "7", code=1)
        self.assertIn("there are ranks 0 to 1", self.errors)
        self.assertRegex(self.muster("jobs"), r"^state  failed  ")
        self.muster("cancel", "state", code=1)
        self.assertIn("nothing to cancel: x in ", self.errors)
        self.muster("why", "--name", "y", "state", code=64)

    def test_an_operator_restarts_the_round_and_cancels_the_run(self):
        process = self.start("run", "--local", "2x1", "--state-dir", "state", "--", "sh", "-c",
                             NOTE + "echo round $MUSTER_ROUND; exec sleep 60")
        rounds = lambda: [line.split()[2] for line in self.notes()]
        self.wait(lambda: rounds().count("1") == 2, "the first round")
        self.wait(lambda: json.loads(self.muster("status", "--json", "state"))["phase"] == "active", "a round to run")
        follower = self.start("logs", "state", "--rank", "0", "--follow")
        self.muster("restart", "state")
        self.assertIn("restart run1 in ", self.errors)
        self.wait(lambda: rounds().count("2") == 2, "a second round")
        self.assertIn("an operator restarted the round: muster restart by", self.muster("why"))
        self.muster("cancel", "state")
        self.assertIn("accepted", self.errors)
        self.end(process)
        self.assertEqual(process.returncode, 123, self.errors)
        output = self.end(follower)
        self.assertIn("round 1\n", output, self.errors)
        self.assertIn("round 2\n", output)
        self.assertRegex(self.muster("why"), r"^run1: the run was stopped: an operator ended the run: muster cancel by")
        self.assert_nothing_left()

    def test_secrets_are_nowhere(self):
        process = self.start("run", "--local", "1", "--", "sh", "-c", NOTE + "exec sleep 4")
        self.wait(self.notes, "a worker")
        access = next((self.folder / ".muster").rglob("operator.json"))
        self.assertEqual(access.stat().st_mode & 0o077, 0)
        secret = json.loads(access.read_text())["operator_secret"]
        for pid, line in self.marked():
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            # Overwritten in place: the kernel shows what the first stack held.
            self.assertNotRegex(environment, rb"MUSTER_JOIN_SECRET=[0-9a-f]", line)
            self.assertNotIn(secret.encode(), environment + line.encode())
        self.end(process)
        for path in self.folder.rglob("*"):
            if path.is_file():
                self.assertNotIn(secret.encode(), path.read_bytes(), path)


if __name__ == "__main__":
    MUSTER = sys.argv.pop(1)
    unittest.main(verbosity=2)
