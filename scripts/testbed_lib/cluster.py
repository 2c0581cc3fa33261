"""The whole testbed: up, down, and what one does to it in between."""

import fcntl
import json
import os
import shutil
import signal
import time

from . import accounting, files, linux, network, slurm
from .host import KILL_LIMIT_S, Host, inside_a_host
from .layout import CONTROLLER, SWITCH, TestbedError, node_names

# With two cores that others use as well; without others it takes a tenth.
UP_LIMIT_S = 60
MUNGE_LIMIT_S = 10
DAEMON_LIMIT_S = 30
LOCK_LIMIT_S = 180


class Cluster:
    def __init__(self, layout):
        self.layout = layout
        self._lock = None

    # ---- what there is -----------------------------------------------------------------------------------

    def record(self):
        """The settings of the testbed that is up, or None. Those of an earlier boot do not count."""
        try:
            record = json.loads(self.layout.record.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return record if record.get("boot") == linux.boot_id() else None

    def require_record(self):
        record = self.record()
        if record is None or not record["complete"]:
            raise TestbedError("no testbed of this checkout is up; start one with `scripts/testbed up`")
        return record

    def _write_record(self, record):
        linux.write_atomically(self.layout.record, json.dumps(record, indent=1) + "\n")

    def host(self, name):
        """A host by name, of the testbed that is up."""
        known = [CONTROLLER] + node_names(self.require_record()["nodes"])
        if name not in known:
            raise TestbedError(f"no host {name!r}; this testbed has {CONTROLLER} and n1 to {known[-1]}")
        return Host(self.layout, name)

    def lock(self):
        """One command that changes something at a time. The lock is on a folder of the checkout: no file is
        left, and the kernel gives it back whatever happens to us."""
        self._lock = os.open(self.layout.checkout / "scripts", os.O_RDONLY | os.O_DIRECTORY)
        deadline = time.monotonic() + LOCK_LIMIT_S
        told = False
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not told:
                    say(f"another testbed command of this checkout is running; waiting up to {LOCK_LIMIT_S} s")
                    told = True
                if time.monotonic() > deadline:
                    raise TestbedError("another testbed command of this checkout did not end; find it with "
                                       "`ps -ef | grep scripts/testbed`")
                time.sleep(0.1)

    # ---- up ----------------------------------------------------------------------------------------------

    def up(self, settings):
        if self.record() and self.record()["complete"]:
            raise TestbedError("the testbed of this checkout is up already (`scripts/testbed status`); "
                               "`scripts/testbed down` first")
        check_machine()
        slurm.slurm_conf(self.layout, settings)  # a wrong --slurm is refused before anything is started
        self.down()  # what a killed command or an earlier boot left
        try:
            self._up(settings)
        except BaseException:
            # Also for Ctrl-C; a second one must not stop the cleaning.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            self.down()
            raise

    def _up(self, settings):
        layout = self.layout
        record = settings | {"boot": linux.boot_id(), "complete": False, "blocks": [], "links": {}}
        files.make_state(layout, record)
        self._write_record(record)
        files.refresh(layout, settings["build"])
        slurm.write_configuration(layout, settings)
        switch = Host(layout, SWITCH)
        switch.create()
        network.create_bridge(layout)
        self._start_munge(switch)
        hosts = [CONTROLLER] + node_names(settings["nodes"])
        for name in hosts:
            Host(layout, name).create()
            network.plug_in(layout, name)
        controller = Host(layout, CONTROLLER)
        if settings["accounting"]:
            accounting.create_database(layout, controller)
        watched = self._start_daemons(controller, settings, first_time=True)
        for name in hosts[1:]:
            watched += self._start_daemons(Host(layout, name), settings)
        self._wait_for_nodes(hosts[1:], UP_LIMIT_S, watched)
        self._write_record(record | {"complete": True})

    def _start_munge(self, switch):
        """One munged for all hosts: its socket is on the file system that they share."""
        layout = self.layout
        log = layout.stderr("munged", SWITCH)
        process = switch.start(
            ["munged", "--foreground", f"--key-file={layout.munge / 'key'}",
             f"--pid-file={layout.munge / 'own.pid'}", f"--seed-file={layout.munge / 'seed'}",
             "--origin=127.0.0.1", "--num-threads=4"], log)
        process.save(switch.folder / "munged.pid")
        slurm.Wait("munged's socket", MUNGE_LIMIT_S).until(
            (layout.munge_run / "munge.socket.2").exists, [("munged", process, log)])

    # ---- daemons -----------------------------------------------------------------------------------------

    def daemons_of(self, name, settings):
        if name != CONTROLLER:
            return ["slurmd"]
        return (["mariadbd", "slurmdbd"] if settings["accounting"] else []) + ["slurmctld"]

    def _start_daemons(self, host, settings, first_time=False):
        """Starts all that belongs on a host, in order; returns what to watch for a death."""
        watched = []
        for daemon in self.daemons_of(host.name, settings):
            watched.append(self._start_daemon(host, daemon))
            if daemon == "mariadbd":
                accounting.wait_for_database(self.layout, host, watched[-1][1])
            elif daemon != "slurmd":
                self._wait_for_port(host, daemon, watched)
            if daemon == "slurmdbd" and first_time:
                accounting.register(self.layout, host)
        return watched

    def _start_daemon(self, host, daemon):
        log = self.layout.stderr(daemon, host.name)
        command = (accounting.database_command(self.layout) if daemon == "mariadbd"
                   else [f"/usr/sbin/{daemon}", "-D"])
        process = host.start(command, log, accounting.environment(self.layout))
        process.save(self.pid_file(host.name, daemon))
        return f"{daemon} on {host.name}", process, log

    def pid_file(self, host, daemon):
        return self.layout.host(host) / f"{daemon}.pid"

    def _wait_for_port(self, host, daemon, watched):
        holder = host.require_holder()
        slurm.Wait(f"{daemon} on {host.name} to listen on port {slurm.PORTS[daemon]}", DAEMON_LIMIT_S).until(
            lambda: linux.listens(holder.pid, slurm.PORTS[daemon]), watched)

    def _wait_for_nodes(self, nodes, limit_s, watched):
        controller = Host(self.layout, CONTROLLER)
        seen = {}

        def all_usable():
            seen.clear()
            seen.update(slurm.node_states(controller) or {})
            return all(slurm.is_usable(seen.get(node)) for node in nodes)

        def detail():
            states = ", ".join(f"{node} {seen.get(node, 'unknown to the controller')}" for node in nodes
                               if not slurm.is_usable(seen.get(node)))
            return f" (now: {states})"

        slurm.Wait(f"node{'s' * (len(nodes) > 1)} {','.join(nodes)} to be idle", limit_s).until(
            all_usable, watched, detail)

    def daemon(self, name, daemon, action):
        host = self.host(name)
        settings = self.require_record()
        known = self.daemons_of(name, settings)
        if daemon not in known:
            raise TestbedError(f"{name} has no {daemon}; it has {', '.join(known)}"
                               + (" (slurmdbd: `up --accounting`)" if daemon == "slurmdbd" else ""))
        host.require_holder()
        process = linux.Process.load(self.pid_file(name, daemon))
        alive = process is not None and process.alive()
        if action == "start":
            if alive:
                raise TestbedError(f"{daemon} on {name} runs already, as process {process.pid}")
            watched = [self._start_daemon(host, daemon)]
            if daemon == "slurmd":
                self._wait_until_back(name, watched)
            elif daemon == "mariadbd":
                accounting.wait_for_database(self.layout, host, watched[0][1])
            else:
                self._wait_for_port(host, daemon, watched)
            return
        if not alive:
            raise TestbedError(f"{daemon} on {name} does not run; "
                               f"`scripts/testbed daemon {name} {daemon} start` starts it")
        if action == "kill":
            linux.kill_and_wait([process], KILL_LIMIT_S)
        else:
            process.kill(signal.SIGSTOP if action == "stop" else signal.SIGCONT)

    def _wait_until_back(self, node, watched):
        """A node's slurmd is up when the controller says so, or, without a controller, when it listens."""
        if slurm.node_states(Host(self.layout, CONTROLLER), 3) is None if self._controller_on() else True:
            self._wait_for_port(Host(self.layout, node), "slurmd", watched)
            say(f"{node} is on; the controller does not answer, so its state there is not known")
        else:
            self._wait_for_nodes([node], DAEMON_LIMIT_S, watched)

    def _controller_on(self):
        return Host(self.layout, CONTROLLER).holder() is not None

    # ---- power and network -------------------------------------------------------------------------------

    def power_off(self, name):
        host = self.host(name)
        if host.holder() is None:
            say(f"{name} is off already")
            return
        # The cable first: a power cut sends no last FIN or RST, its peers just hear nothing more.
        network.set_link(self.layout, name, "down")
        host.destroy()
        network.unplug(self.layout, name)

    def power_on(self, name):
        host = self.host(name)
        settings = self.require_record()
        if host.holder() is not None:
            say(f"{name} is on already")
            return
        host.create()
        network.plug_in(self.layout, name)
        if name in settings["links"]:
            network.set_link(self.layout, name, settings["links"][name])
        self._apply_blocks(settings, [name])
        watched = self._start_daemons(host, settings)
        if name == CONTROLLER:
            slurm.Wait("slurmctld to answer", DAEMON_LIMIT_S).until(
                lambda: slurm.node_states(host) is not None, watched)
        elif settings["links"].get(name) == "down":
            say(f"{name} is on, but its link is down: the controller cannot see it")
        else:
            self._wait_until_back(name, watched)

    def link(self, name, wanted):
        host = self.host(name)
        host.require_holder()
        network.set_link(self.layout, name, wanted)
        record = self.require_record()
        record["links"][name] = wanted
        if wanted == "up":
            del record["links"][name]
        self._write_record(record)

    def block(self, source, target):
        self.host(source)
        self.host(target)
        if source == target:
            raise TestbedError(f"block {source} {target}: a host's packets to itself do not pass the network")
        record = self.require_record()
        if [source, target] not in record["blocks"]:
            record["blocks"].append([source, target])
        self._apply_blocks(record, [target])
        self._write_record(record)

    def unblock(self):
        record = self.require_record()
        targets = {target for _, target in record["blocks"]}
        record["blocks"] = []
        self._apply_blocks(record, sorted(targets))
        self._write_record(record)

    def _apply_blocks(self, record, targets):
        for target in targets:
            if Host(self.layout, target).holder() is not None:  # else power-on does it
                network.set_blocks(self.layout, target, [s for s, t in record["blocks"] if t == target])

    # ---- down --------------------------------------------------------------------------------------------

    def down(self):
        """Takes everything away; what is not there is no error."""
        layout = self.layout
        if not layout.state.exists():
            return
        hosts = layout.state / "hosts"
        problems = []
        # The controller and the nodes before the switch, so that no daemon logs the loss of its network.
        names = sorted(hosts.iterdir(), key=lambda path: path.name == SWITCH) if hosts.exists() else []
        for path in names:
            try:
                Host(layout, path.name).destroy()
            except TestbedError as error:
                problems.append(str(error))
        # What entered a host in a way of its own, or belongs to a command that was killed half-way.
        left = linux.kill_and_wait(linux.processes_that_see(layout.state), KILL_LIMIT_S)
        problems += [f"process {p.pid} ({p.command()}) does not die" for p in left]
        if problems:
            raise TestbedError("cannot take the testbed down:\n" + "\n".join(problems))
        for point in linux.mounts_below(layout.state):  # never ours; but a tree is removed next
            linux.unmount(point)
        shutil.rmtree(layout.state)


def check_machine():
    """Refuses early, and by name, what would fail later."""
    where = inside_a_host()
    if where:
        raise TestbedError(f"this is host {where} of a testbed; run the command on the machine itself")
    if os.geteuid() != 0:
        raise TestbedError("needs root (namespaces, mounts, devices): run it with sudo")
    tools = ("slurmctld", "slurmd", "srun", "munged", "ip", "tc", "nft", "sleep")
    missing = [tool for tool in tools if shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin") is None]
    if missing:
        raise TestbedError(f"not installed: {', '.join(missing)}; `scripts/setup --packages-only` installs all "
                           "that is needed")
    if not os.path.isdir("/etc/slurm"):
        raise TestbedError("/etc/slurm does not exist; Debian's package slurm-client brings it")


def say(text):
    print(f"testbed: {text}", flush=True)
