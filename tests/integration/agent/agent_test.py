#!/usr/bin/env python3
"""agent_test.py AGENT RENDEZVOUSD VERSION: the agent as a whole, see harness.py."""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import SECOND, Run, Settings, alive, children, state, wait_for  # noqa: E402

WORKER = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")]

# Leaves a process behind that forked twice, called setsid and ignores TERM; says its pid.
DAEMON = r"""
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for fd in (0, 1, 2):
            os.close(fd)
        name = os.environ["TEST_FOLDER"] + "/daemon-of-" + os.environ["RANK"]
        with open(name + ".new", "w") as file:
            file.write(f"{os.getpid()}\n")
        os.rename(name + ".new", name)
        while True:
            time.sleep(60)
    os._exit(0)
os.wait()
while not os.path.exists(os.environ["TEST_FOLDER"] + "/daemon-of-" + os.environ["RANK"]):
    time.sleep(0.01)
with open(os.environ["TEST_FOLDER"] + "/worker-" + os.environ["RANK"] + ".new", "w") as file:
    file.write(f"{os.getpid()}\n")
os.rename(file.name, file.name[:-4])
"""
STAY = DAEMON + "\nwhile True: time.sleep(60)\n"


def locked():
    """Pids in the node's lock files."""
    folder, pids = f"/tmp/muster-{os.geteuid()}", set()
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name.endswith(".lock"):  # what else is there belongs to another run on this machine
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                pids.add(int(file.read().strip() or 0))
    return pids


class AgentTest(unittest.TestCase):
    def run_of(self, *args, **kwargs):
        run = Run(*args, **kwargs)
        result = self._outcome.result
        troubles = len(result.failures) + len(result.errors)

        def end():
            if len(result.failures) + len(result.errors) > troubles:
                print(run.traces(), file=sys.stderr)
            run.close()

        self.addCleanup(end)
        return run

    def check_gone(self, pids, what):
        for pid in pids:
            wait_for(f"{what}: process {pid} gone", lambda pid=pid: not alive(pid), 15)

    def test_workers_find_their_world_and_the_run_ends_clean(self):
        show = ("env | grep -E '^(RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|MUSTER_ROUND|"
                "MUSTER_RESTART_CAUSE|GLOO_SOCKET_IFNAME)=' | sort | tr '\\n' ' '; echo; "
                "echo no newline >&2; printf end")
        run = self.run_of(["sh", "-c", show], agents=2, workers=2).start()
        for name in run.names:
            self.assertEqual(run.exit_code(name), 0, run.traces())
        ports = set()
        for rank in range(4):
            log = run.read(f"logs/attempt-0/rank-{rank}.round-1.log")
            self.assertIn(f" RANK={rank} ", " " + log)
            self.assertIn(f"LOCAL_RANK={rank % 2} ", log)
            self.assertIn("WORLD_SIZE=4 ", log)
            self.assertIn("MASTER_ADDR=127.0.0.1 ", log)
            self.assertIn("MUSTER_ROUND=1 ", log)
            self.assertIn("MUSTER_RESTART_CAUSE=initial ", log)
            self.assertIn("GLOO_SOCKET_IFNAME=lo ", log)
            self.assertIn("no newline\n", log)
            self.assertTrue(log.endswith("end\n"), log)
            ports.add(re.search(r"MASTER_PORT=(\d+)", log).group(1))
        self.assertEqual(len(ports), 1)
        shown = run.read("out-local1")
        self.assertIn("[rank 2] end\n", shown)
        self.assertIn("[rank 3] end\n", shown)
        self.assertNotIn("[rank 0]", shown)
        # Nothing is left on the node: no folder, no socket, no lock.
        self.assertEqual(os.listdir(os.path.join(run.folder, "l")), [])
        self.assertFalse(locked() & {agent.pid for agent in run.agents.values()})

    def test_the_secret_is_nowhere_to_be_read(self):
        run = self.run_of(["sh", "-c", STAY_SH], workers=1).start()
        worker = run.pid("worker")
        keeper = run.agents["local0"].pid
        supervisor = run.supervisor()
        self.assertIn(worker, children(supervisor))
        for pid in (keeper, supervisor, worker):
            for name in ("environ", "cmdline"):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    self.assertNotIn(run.join_secret.encode(), file.read(), f"{pid} {name}")
        with open(f"/proc/{worker}/environ", "rb") as file:
            environ = file.read()
        self.assertIn(b"MUSTER_RUN_ID=", environ)
        self.assertNotIn(b"MUSTER_AGENT_OPTIONS=", environ)
        self.assertNotIn(b"MUSTER_JOIN_SECRET", environ)

    def test_a_killed_worker_gets_the_world_a_new_round(self):
        run = self.run_of(["sh", "-c", "echo $$ > $TEST_FOLDER/n.$$; "
                           "mv $TEST_FOLDER/n.$$ $TEST_FOLDER/pid-$RANK-$MUSTER_ROUND; "
                           "echo count $TORCHELASTIC_RESTART_COUNT cause $MUSTER_RESTART_CAUSE; "
                           "test $MUSTER_ROUND = 1 && exec sleep 600; exit 0"],
                          agents=2, workers=1).start()
        first = run.pid("pid-0-1")
        second = run.pid("pid-1-1")
        os.kill(second, signal.SIGKILL)
        for name in run.names:
            self.assertEqual(run.exit_code(name), 0)
        self.assertFalse(alive(first))
        # Whoever killed it, it was not the code.
        self.assertIn("count 1 cause agent", run.read("logs/attempt-0/rank-1.round-2.log"))

    def test_close_leaves_nothing_behind(self):
        stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.addCleanup(lambda: (stranger.kill(), stranger.wait()))
        run = self.run_of([sys.executable, "-c", DAEMON], workers=2).start()
        pids = [run.pid("daemon-of-0"), run.pid("daemon-of-1")]
        self.assertEqual(run.exit_code(), 0)
        self.check_gone(pids, "after close")
        self.assertTrue(alive(stranger.pid))

    def test_a_killed_supervisor_is_replaced_and_its_workers_tree_ended(self):
        stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.addCleanup(lambda: (stranger.kill(), stranger.wait()))
        run = self.run_of([sys.executable, "-c", STAY], workers=2).start()
        old = [run.pid(f"{kind}-{rank}") for kind in ("daemon-of", "worker") for rank in (0, 1)]
        supervisor = run.supervisor()
        for rank in (0, 1):
            os.unlink(os.path.join(run.folder, f"worker-{rank}"))
            os.unlink(os.path.join(run.folder, f"daemon-of-{rank}"))
        os.kill(supervisor, signal.SIGKILL)
        self.check_gone(old, "after the supervisor's death")
        new = [run.pid(f"worker-{rank}") for rank in (0, 1)]
        self.assertFalse(set(new) & set(old))
        self.assertNotEqual(run.supervisor(), supervisor)
        self.assertIsNone(run.agents["local0"].poll(), "the keeper, and with it the step, lives")
        self.assertTrue(alive(stranger.pid))
        self.assertIn("a new one starts", run.read("err-local0"))

    def test_a_killed_keeper_takes_everything_with_it(self):
        stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.addCleanup(lambda: (stranger.kill(), stranger.wait()))
        run = self.run_of([sys.executable, "-c", STAY], workers=2).start()
        pids = [run.pid(f"{kind}-{rank}") for kind in ("daemon-of", "worker") for rank in (0, 1)]
        pids.append(run.supervisor())
        run.agents["local0"].kill()
        self.check_gone(pids, "after the keeper's death")
        self.assertTrue(alive(stranger.pid))
        self.assertNotIn(run.agents["local0"].pid, locked(), "its lock is left behind")
        self.assertEqual(os.listdir(os.path.join(run.folder, "l")), [])

    def test_three_quick_deaths_of_the_supervisor_are_enough(self):
        run = self.run_of(["sleep", "600"], workers=1).start()
        seen = set()
        for _ in range(3):
            pid = wait_for("a new supervisor",
                           lambda: set(children(run.agents["local0"].pid)) - seen).pop()
            seen.add(pid)
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(run.exit_code(), 1)
        self.assertIn("given up", run.read("err-local0"))

    def test_a_program_that_is_not_there(self):
        run = self.run_of(["no-such-program-anywhere"], workers=1).start()
        wait_for("the message", lambda: "no-such-program-anywhere" in run.read("err-local0"))
        text = run.read("err-local0")
        self.assertIn("was not found on node local0", text)
        self.assertIn("its PATH there is", text)
        self.assertEqual(run.exit_code(), 0, "closed by the daemon")

    def test_another_state_folder_starts_no_worker(self):
        run = self.run_of(["sh", "-c", "echo it-ran"], workers=1,
                          options={"state_dir": "/tmp", "state_token": "of-another-folder"}).start()
        self.assertEqual(run.exit_code(), 0, "closed by the daemon")
        self.assertRegex(run.read("err-local0"), "/tmp on node local0 is not the one.*--state-dir")
        self.assertNotIn("it-ran", run.read("out-local0"))

    def test_a_daemon_that_is_never_reached(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound and not listening: refused
            endpoint = "127.0.0.1:%d" % closed.getsockname()[1]
            run = self.run_of(["sh", "-c", "echo it-ran"], workers=1,
                              options={"endpoints": [endpoint], "form_timeout_ns": 7 * SECOND}).start()
            self.assertEqual(run.exit_code(), 69)
        text = run.read("err-local0")
        self.assertIn(f"the daemon at {endpoint} was never reached in 5", text)
        self.assertIn("gives up", text)

    def test_the_plugins_way_in_brings_its_own_program(self):
        run = self.run_of([], workers=1)
        run.start_agent(program=["sh", "-c", "echo given $0", "as argument"])
        self.assertEqual(run.exit_code(), 0)
        self.assertIn("given as argument", run.read("out-local0"))

    def test_survivors_reform_in_place(self):
        run = self.run_of(WORKER, agents=2, workers=2).start()
        before = {}
        for rank in range(4):
            line = run.said(f"round-1.rank-{rank}")
            self.assertIn("world=4 previous=0 restarts=0 barrier=0", line)
            before[rank] = int(re.search(r"pid=(\d+)", line).group(1))
        pids = ",".join(str(before[rank]) for rank in range(4))
        self.assertIn(f"pids={pids}", run.read("round-1.rank-3"))
        os.kill(before[2], signal.SIGKILL)
        for rank in range(4):
            line = run.said(f"round-2.rank-{rank}")
            self.assertIn("world=4 previous=4 restarts=1 barrier=0", line)
            pid = int(re.search(r"pid=(\d+)", line).group(1))
            if rank == 2:
                self.assertNotEqual(pid, before[rank])
            else:
                self.assertEqual(pid, before[rank], f"rank {rank} did not survive")
        # Its output goes into the new round's file.
        wait_for("round 2 in its own log",
                 lambda: "round 2 rank 0" in run.read("logs/attempt-0/rank-0.round-2.log"))

    def test_the_daemons_death_is_not_noticed_by_workers(self):
        run = self.run_of(WORKER, agents=2, workers=1).start()
        pids = [re.search(r"pid=(\d+)", run.said(f"round-1.rank-{rank}")).group(1)
                for rank in (0, 1)]
        run.daemon.kill()
        run.daemon.wait()
        run.start_daemon()
        time.sleep(4)
        for pid in pids:
            self.assertTrue(alive(int(pid)))
        self.assertEqual(run.read("round-2.rank-0"), "")
        # It still knows them: the next failure is theirs to answer.
        os.kill(int(pids[1]), signal.SIGKILL)
        self.assertIn(f"pid={pids[0]} ", run.said("round-2.rank-0"))

    def test_workers_that_are_cut_off_freeze_and_go_on_when_the_daemon_answers(self):
        run = self.run_of(["sh", "-c", STAY_SH], workers=1).start()
        worker = run.pid("worker")
        run.daemon.send_signal(signal.SIGSTOP)
        try:
            wait_for("a frozen worker", lambda: state(worker) == "T", 15)
        finally:
            run.daemon.send_signal(signal.SIGCONT)
        wait_for("a worker that goes on", lambda: state(worker) == "S", 15)
        self.assertIn("has answered no beat", run.read("err-local0"))

    def test_term_ends_the_workers_and_the_agent(self):
        run = self.run_of([sys.executable, "-c", STAY], workers=1).start()
        pids = [run.pid("daemon-of-0"), run.pid("worker-0"), run.supervisor()]
        began = time.monotonic()
        run.agents["local0"].send_signal(signal.SIGTERM)
        run.exit_code()
        self.assertLess(time.monotonic() - began, 12)
        self.check_gone(pids, "after TERM")
        self.assertIn("agent got signal 15", run.read("daemon") + run.read("err-local0"))

    def test_a_living_duplicate_is_refused_by_name(self):
        run = self.run_of(["sleep", "600"], workers=1).start()
        run.supervisor()
        first = run.agents["local0"]
        second = run.start_agent()
        self.assertEqual(second.wait(20), 69)
        run.agents["local0"] = first
        self.assertIn(f"already alive on this node, as process {first.pid}",
                      run.read("err-local0"))
        self.assertIsNone(first.poll())

    def test_hostile_peers_of_the_local_socket(self):
        run = self.run_of(WORKER, workers=1).start()
        pid = re.search(r"pid=(\d+)", run.said("round-1.rank-0")).group(1)
        with open(f"/proc/{pid}/environ", "rb") as file:
            path = re.search(rb"MUSTER_AGENT_SOCKET=([^\0]+)", file.read()).group(1).decode()
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        for _ in range(20):
            # This process is nobody's worker: it is shut out.
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(10)
                peer.connect(path)
                try:
                    peer.sendall(struct.pack("<IHH", 0xFFFFFFFF, 1, 1) + os.urandom(200))
                    self.assertEqual(peer.recv(1), b"")
                except (ConnectionResetError, BrokenPipeError):
                    pass
        os.kill(int(pid), 0)
        wait_for("a refusal", lambda: "no worker started it" in run.read("err-local0"))

    def test_a_worker_that_sends_rubbish_harms_nobody_else(self):
        script = os.path.join(os.path.dirname(WORKER[1]), "rubbish_worker.py")
        run = self.run_of([sys.executable, script], workers=2).start()
        self.assertEqual(run.exit_code(), 0, run.traces())
        for rank in (0, 1):
            self.assertEqual(run.read(f"logs/attempt-0/rank-{rank}.round-1.log"), "good\n")
        self.assertIn("ended a connection of worker", run.read("err-local0"))

    def test_the_master_port_is_held_and_can_be_taken(self):
        take = ("import os, socket\n"
                "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                "port = int(os.environ['MASTER_PORT'])\n"
                "t = socket.socket()\n"
                "try:\n  t.bind((os.environ['MASTER_ADDR'], port)); print('stolen')\n"
                "except OSError: print('held')\n"
                "s.bind(('', port)); s.listen(); print('taken')\n")
        run = self.run_of([sys.executable, "-c", take], workers=1).start()
        self.assertEqual(run.exit_code(), 0, run.traces())
        self.assertEqual(run.read("out-local0"), "held\ntaken\n")


STAY_SH = "echo $$ > $TEST_FOLDER/w; mv $TEST_FOLDER/w $TEST_FOLDER/worker; exec sleep 600"

if __name__ == "__main__":
    Settings.agent, Settings.daemon, Settings.version = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
