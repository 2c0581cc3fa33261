"""Slurm's configuration files, its daemons, and what they say about nodes."""

import re
import time

from . import linux
from .layout import (CONTROLLER, SLURMCTLD_PORT, SLURMD_PORT, SLURMDBD_PORT, TestbedError, address,
                     node_names)

# Slurm's own defaults where the tests would wait minutes for nothing. cred_expire is the pause before a
# requeued job may start again.
SHORT_TIMERS = {"SlurmdTimeout": "10", "KillWait": "5"}
SHORT_CRED_EXPIRE = "cred_expire=5"

NODE_MEMORY_MB = 16000  # claimed, like the CPUs; memory is not a consumable resource here

# Lines that may stand several times: an override adds to them.
_REPEATED = ("nodename", "partitionname", "nodeset", "downnodes")

PORTS = {"slurmctld": SLURMCTLD_PORT, "slurmd": SLURMD_PORT, "slurmdbd": SLURMDBD_PORT}


def write_configuration(layout, settings):
    """Writes /etc/slurm as all hosts see it."""
    layout.slurm_etc.mkdir(parents=True, exist_ok=True)
    nodes = node_names(settings["nodes"])
    files = {
        "slurm.conf": slurm_conf(layout, settings),
        "gres.conf": gres_conf(layout, settings),
        # Named, so that slurmd does not look for systemd; with linuxproc and task/none nothing is ever
        # written to a control group.
        "cgroup.conf": "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n",
        # Two switches, the nodes in halves; used only with --slurm TopologyPlugin=topology/tree.
        "topology.conf": topology_conf(nodes),
        "plugstack.conf": plugstack_conf(layout),
    }
    for name, text in files.items():
        linux.write_atomically(layout.slurm_etc / name, text)


def slurm_conf(layout, settings):
    lines = {
        "ClusterName": layout.name,
        "SlurmctldHost": f"{CONTROLLER}({address(CONTROLLER)})",
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        "StateSaveLocation": layout.controller_state,
        "SlurmctldPidFile": layout.host(CONTROLLER) / "slurmctld.own.pid",
        "SlurmctldLogFile": layout.log("slurmctld"),
        "SlurmdSpoolDir": layout.host("%n") / "spool",
        "SlurmdPidFile": layout.host("%n") / "slurmd.own.pid",
        "SlurmdLogFile": layout.log("slurmd", "%n"),
        "SlurmctldDebug": "verbose",
        "SlurmdDebug": "verbose",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "JobAcctGatherType": "jobacct_gather/none",
        "MpiDefault": "none",
        "SlurmdParameters": "config_overrides",  # claims CPUs that the machine does not have
        "ReturnToService": "2",  # a node that was away is used again as soon as it answers
        "GresTypes": "gpu",
        "SchedulerParameters": "bf_interval=5,sched_min_interval=100000",
        "AccountingStorageType": "accounting_storage/none",
    }
    if settings["accounting"]:
        lines["AccountingStorageType"] = "accounting_storage/slurmdbd"
        lines["AccountingStorageHost"] = CONTROLLER
        lines["AccountingStorageTRES"] = "gres/gpu"
    if not settings["default_timers"]:
        lines |= SHORT_TIMERS
        lines["AuthInfo"] = SHORT_CRED_EXPIRE
    nodes = node_names(settings["nodes"])
    gpus = f" Gres=gpu:{settings['gpus']}" if settings["gpus"] else ""
    repeated = [
        f"NodeName={name} NodeAddr={address(name)} CPUs={settings['cpus']} Boards=1 SocketsPerBoard=1 "
        f"CoresPerSocket={settings['cpus']} ThreadsPerCore=1 RealMemory={NODE_MEMORY_MB}{gpus} State=UNKNOWN"
        for name in nodes]
    repeated.append("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    repeated += _override(lines, settings["slurm"])
    return "".join(f"{key}={value}\n" for key, value in lines.items()) + "\n".join(repeated) + "\n"


def _override(lines, overrides):
    """Puts the user's KEY=VALUE over the lines; returns those whose key may stand several times."""
    added = []
    known = {key.lower(): key for key in lines}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z]+", key):
            raise TestbedError(f"--slurm {text!r}: give one line of slurm.conf as KEY=VALUE")
        if key.lower() in _REPEATED:
            added.append(text)
            continue
        lines[known.setdefault(key.lower(), key)] = value
    return added


def gres_conf(layout, settings):
    count = settings["gpus"]
    if not count:
        return "AutoDetect=off\n"
    files = layout.gpus / (f"gpu[0-{count - 1}]" if count > 1 else "gpu0")
    return f"AutoDetect=off\nNodeName=n[1-{settings['nodes']}] Name=gpu File={files}\n"


def topology_conf(nodes):
    half = (len(nodes) + 1) // 2
    leaves = [("s1", nodes[:half]), ("s2", nodes[half:])]
    leaves = [(name, members) for name, members in leaves if members]
    lines = [f"SwitchName={name} Nodes={','.join(members)}" for name, members in leaves]
    return "\n".join(lines + [f"SwitchName=root Switches={','.join(n for n, _ in leaves)}"]) + "\n"


def plugstack_conf(layout):
    plugin = layout.libraries / "spank_muster.so"
    return f"optional {plugin}\n" if plugin.exists() else "# muster's plugin was not built\n"


def node_states(controller, limit_s=5):
    """{node: state as sinfo prints it}, or None when the controller does not answer."""
    code, text = controller.output(["sinfo", "-h", "-N", "-o", "%N %T"], limit_s)
    if code != 0:
        return None
    return dict(line.split() for line in text.splitlines() if len(line.split()) == 2)


def is_usable(state):
    return state in ("idle", "mixed", "allocated")


def last_lines(path, count=15):
    try:
        lines = path.read_text(errors="replace").splitlines()[-count:]
    except OSError:
        return f"  ({path} does not exist)"
    return "\n".join(f"  {line}" for line in lines) or f"  ({path} is empty)"


class Wait:
    """A wait that says for what and until when, and looks meanwhile whether the daemons live."""

    def __init__(self, what, limit_s):
        self.what = what
        self.limit_s = limit_s
        self._deadline = time.monotonic() + limit_s

    def until(self, condition, watched=(), detail=lambda: ""):
        """`watched` is a list of (name, Process, log): the death of one ends the wait with its last words."""
        pause = 0.02
        while True:
            result = condition()
            if result:
                return result
            for name, process, log in watched:
                if not process.alive():
                    raise TestbedError(f"{name} ended while waiting for {self.what}. Last lines of {log}:\n"
                                       f"{last_lines(log)}")
            if time.monotonic() > self._deadline:
                logs = "".join(f"\nLast lines of {log}:\n{last_lines(log)}" for _, _, log in watched[:2])
                raise TestbedError(f"waited {self.limit_s} s in vain for {self.what}{detail()}.{logs}")
            time.sleep(pause)
            pause = min(pause * 1.3, 0.2)
