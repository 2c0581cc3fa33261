"""Driving a testbed from a program: run commands on hosts, submit jobs, wait for them, find and end
their processes. Used by scripts/demo, scripts/bench and tests/slurm; the cluster itself is cluster.py."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

from testbed_lib.host import Host
from testbed_lib.layout import Layout, TestbedError


# A job that Slurm will do nothing more about by itself.
FINISHED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


class Driver:
    def __init__(self, checkout):
        self.checkout = pathlib.Path(os.path.realpath(checkout))
        self.layout = Layout(self.checkout)
        self.shared = self.layout.shared

    # ---- the cluster

    def testbed(self, *words, check=True, limit_s=120):
        done = subprocess.run([str(self.checkout / "scripts" / "testbed"), *words], text=True,
                              capture_output=True, timeout=limit_s)
        if check and done.returncode != 0:
            raise TestbedError(f"testbed {' '.join(words)}: exit {done.returncode}\n"
                               f"{done.stdout}{done.stderr}")
        return done

    def up(self, nodes, *options):
        self.testbed("up", str(nodes), *options)

    def ensure_up(self, nodes):
        """A cluster with the newest build: one that is up already is used. True if it had to be started."""
        if self.status().get("up"):
            self.testbed("refresh")
            return False
        self.up(nodes)
        return True

    def down(self):
        self.testbed("down")

    def status(self):
        """What `testbed status --json` prints; its exit status says no more than the value `up`."""
        done = self.testbed("status", "--json", check=False)
        if not done.stdout:
            raise TestbedError(done.stderr.strip())
        return json.loads(done.stdout)

    def nodes(self):
        """The names of the nodes, powered on or off."""
        return [item["host"] for item in self.status()["hosts"] if item["host"] != "ctl"]

    def run(self, host, *words, root=False, user=None, check=True, limit_s=60, cwd=None):
        """Runs a command on a host; returns CompletedProcess with stdout and stderr as text."""
        head = ["exec"] + (["--root"] if root else []) + (["--user", user] if user else [])
        done = subprocess.run([str(self.checkout / "scripts" / "testbed"), *head, host, *words],
                              text=True, capture_output=True, timeout=limit_s, cwd=cwd or self.shared)
        if check and done.returncode != 0:
            raise TestbedError(f"on {host}: {' '.join(words)}: exit {done.returncode}\n"
                               f"{done.stdout}{done.stderr}")
        return done

    # ---- jobs

    def folder(self, name):
        """A folder of the ordinary user in the shared one."""
        path = self.shared / name
        self.run("ctl", "mkdir", "-p", "-m", "0700", str(path))
        return path

    def sbatch(self, script, *options, folder=None, user=None, root=False):
        """Submits the text of a script from `folder`; returns the job's id."""
        folder = folder or self.shared
        path = pathlib.Path(folder) / f"job-{time.monotonic_ns()}.sh"
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)
        done = self.run("ctl", "sbatch", "--parsable", *options, str(path), cwd=folder, user=user, root=root)
        return int(done.stdout.strip().split(";")[0])

    def job(self, job):
        """What Slurm says of a job, as a dictionary; empty if it knows it no more."""
        done = self.run("ctl", "scontrol", "-o", "show", "job", str(job), check=False)
        return dict(re.findall(r"(?:^|\s)([A-Za-z:/]+)=(\S*)", done.stdout))

    def state(self, job):
        return self.job(job).get("JobState", "UNKNOWN")

    def wait_for(self, condition, limit_s, what, step_s=0.2):
        """Calls condition until it gives something true, and returns that."""
        end = time.monotonic() + limit_s
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                raise TestbedError(f"waited {limit_s} s for {what}")
            time.sleep(step_s)

    def wait_state(self, job, states, limit_s):
        """Waits until Slurm shows one of the states; returns it."""
        states = (states,) if isinstance(states, str) else states
        return self.wait_for(lambda: self.state(job) in states and self.state(job), limit_s,
                             f"job {job} to be {' or '.join(states)}; it is {self.state(job)}: "
                             f"{self.job(job)}")

    # ---- processes

    def processes(self, host, pattern="."):
        """(pid as this machine counts, command line) of the host's processes that match."""
        found = []
        for process in Host(self.layout, host).processes():
            try:
                words = pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended meanwhile
            line = b" ".join(words).decode(errors="replace").strip()
            if line and re.search(pattern, line):
                found.append((process.pid, line))
        return sorted(found)

    @staticmethod
    def environment_of(pid):
        """A process's environment as it was at its start."""
        block = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return dict(item.decode(errors="replace").split("=", 1) for item in block if b"=" in item)

    def worker(self, rank, hosts, job=None):
        """(host, pid) of the living worker of a rank."""
        return self.workers(hosts, job).get(rank)

    def workers(self, hosts, job=None):
        """{rank: (host, pid)} of the living workers on the hosts that are on."""
        found = {}
        for host in hosts:
            if Host(self.layout, host).holder() is None:
                continue  # it is off
            for pid, _ in self.processes(host):
                try:
                    values = self.environment_of(pid)
                    parent = self.environment_of(self._parent(pid))
                except (OSError, ValueError):
                    continue
                if "RANK" not in values or "MUSTER_ROUND" not in values:
                    continue
                if job is not None and values.get("SLURM_JOB_ID") != str(job):
                    continue
                if parent.get("RANK") == values["RANK"]:
                    continue  # a child of the worker
                found.setdefault(int(values["RANK"]), (host, pid))
        return found

    @staticmethod
    def _parent(pid):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[1])

    @staticmethod
    def kill(pid, number=signal.SIGKILL):
        os.kill(pid, number)


def json_lines(path):
    """The whole lines of a file of JSON objects; none if it is not there."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError:
        return []
    objects = []
    for line in text.splitlines():
        try:
            objects.append(json.loads(line))
        except ValueError:
            continue  # a line still being written
    return objects
