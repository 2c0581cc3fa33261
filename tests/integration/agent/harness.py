"""A run of the agent's tests: one real daemon, some real agents on loopback, and its traces."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SECOND = 1_000_000_000


class Settings:
    agent = ""
    daemon = ""
    version = ""


def certificate(folder):
    key, cert = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", key, "-out", cert, "-subj", "/CN=muster", "-days", "3650",
         "-addext", "subjectAltName=DNS:muster"],
        check=True, capture_output=True)
    with open(cert, encoding="ascii") as a, open(key, encoding="ascii") as b:
        return a.read(), b.read()


def state(pid):
    """As in /proc/PID/stat; X if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def alive(pid):
    """True if the process is there and no zombie."""
    return state(pid) not in "ZX"


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] not in "ZX":
            found.append(int(name))
    return found


def wait_for(what, condition, limit=30.0):
    until = time.monotonic() + limit
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {limit} s: {what}")


class Run:
    """`agents` agents with `workers` workers each. Ended, with all traces, by close()."""

    def __init__(self, program, agents=1, workers=2, config=None, options=None):
        self.folder = tempfile.mkdtemp(prefix="muster-agent-test-")
        self.program = program
        self.run_id = "test-" + secrets.token_hex(6)
        self.join_secret = secrets.token_hex(32)
        cert, key = certificate(self.folder)
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.endpoint = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.names = [f"local{i}" for i in range(agents)]
        self.start_options = {
            "config": {
                "run_id": self.run_id, "version": Settings.version, "nodes": self.names,
                "min_nodes": agents, "max_nodes": agents, "workers_per_agent": workers,
                "beat_ns": SECOND // 2, "lease_ns": 5 * SECOND, "stop_grace_ns": 2 * SECOND,
                "last_call_ns": SECOND // 10, "attempt": 0, "agents_per_node": [],
                "form_timeout_ns": 60 * SECOND, "wait_node_ns": 30 * SECOND,
                "prepare_timeout_ns": 30 * SECOND, "probe_timeout_ns": SECOND,
                "attend_grace_ns": SECOND, "can_requeue": False, "budgets": {},
                "batch_node": "", **(config or {}),
            },
            "join_secret": self.join_secret, "operator_secret": secrets.token_hex(32),
            "certificate": cert, "private_key": key,
            "journal": os.path.join(self.folder, "journal"), "state_dir": "",
        }
        self.options = {
            "run_id": self.run_id, "run_name": "test", "version": Settings.version,
            "endpoints": [self.endpoint], "certificate": cert, "program": program,
            "workers_per_agent": workers, "local_dir": os.path.join(self.folder, "l"),
            "log_dir": os.path.join(self.folder, "logs"), "local": True,
            "beat_ns": SECOND // 2, "lease_ns": 5 * SECOND, "stop_grace_ns": 2 * SECOND,
            **(options or {}),
        }
        os.mkdir(os.path.join(self.folder, "logs"))  # as the host does
        self.daemon = None
        self.agents = {}
        self.files = []
        self.start_daemon()

    def open(self, name):
        file = open(os.path.join(self.folder, name), "ab")
        self.files.append(file)
        return file

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def start_daemon(self):
        read_end, write_end = os.pipe()
        fd = self.listener.fileno()
        document = json.dumps({**self.start_options, "listen_fd": fd}).encode()
        self.daemon = subprocess.Popen(
            [Settings.daemon, "--options-fd", str(read_end)], pass_fds=[read_end, fd],
            stdin=subprocess.DEVNULL, stdout=self.open("daemon"), stderr=subprocess.STDOUT)
        os.close(read_end)
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(document)

    def start_agent(self, index=0, program=None, environment=None):
        name = self.names[index]
        env = {**os.environ, "MUSTER_LOCAL_NODE": name, "MUSTER_JOIN_SECRET": self.join_secret,
               "MUSTER_AGENT_OPTIONS": json.dumps(self.options), "TEST_FOLDER": self.folder,
               **(environment or {})}
        agent = subprocess.Popen(
            [Settings.agent, "agent"] + (["--"] + program if program else []), env=env,
            stdin=subprocess.DEVNULL, stdout=self.open(f"out-{name}"),
            stderr=self.open(f"err-{name}"), start_new_session=True)
        self.agents[name] = agent
        return agent

    def start(self):
        for index in range(len(self.names)):
            self.start_agent(index)
        return self

    def supervisor(self, name="local0"):
        keeper = self.agents[name].pid
        return wait_for("a supervisor", lambda: children(keeper))[0]

    def said(self, name, limit=30.0):
        """The file `name` in the test's folder, once it is there and whole (it ends a line)."""
        return wait_for(name, lambda: self.read(name).endswith("\n") and self.read(name), limit)

    def pid(self, name, limit=30.0):
        return int(self.said(name, limit))

    def exit_code(self, name="local0", limit=30.0):
        try:
            return self.agents[name].wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"agent {name} did not end within {limit} s") from None

    def traces(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name == "daemon" or name.startswith(("out-", "err-")):
                text += f"--- {name}\n{self.read(name)[-4000:]}\n"
        return text

    def close(self):
        for agent in self.agents.values():
            if agent.poll() is None:
                agent.send_signal(signal.SIGTERM)
        for agent in self.agents.values():
            try:
                agent.wait(15)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        self.daemon.kill()
        self.daemon.wait()
        self.listener.close()
        for file in self.files:
            file.close()
        shutil.rmtree(self.folder)
