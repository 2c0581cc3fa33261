"""Names, paths and addresses of one testbed. All follow from the path of the checkout, so that two
checkouts can each have one up and neither can touch the other's."""

import hashlib
import os
import pathlib

# Not below /tmp or /run: hosts have their own there, and both may be mounted noexec or live in memory.
STATE_PREFIX = "/var/lib/muster-testbed-"

CONTROLLER = "ctl"
SWITCH = "switch"  # holds the bridge and munged; no Slurm host

# The third part of an address is 0 for the switch and the controller, 1 for nodes. One number a node.
MAX_NODES = 64  # more would need more than 2 cores and some 10 MB of memory each anyway

# Ordinary users of the hosts. They exist only inside: each host sees a passwd file of its own.
USERS = ("muster-test", "muster-other")

SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818
SLURMDBD_PORT = 6819


class TestbedError(Exception):
    """An expected failure: says what is wrong, and what to do."""


class Layout:
    """Every path and name of the testbed that belongs to `checkout`."""

    def __init__(self, checkout):
        self.checkout = pathlib.Path(os.path.realpath(checkout))
        digest = hashlib.sha256(str(self.checkout).encode()).hexdigest()[:8]
        self.name = f"mt{digest}"  # short: the name of a bridge has at most 15 characters
        self.state = pathlib.Path(STATE_PREFIX + self.name)
        self.record = self.state / "testbed.json"
        self.shared = self.state / "shared"
        self.programs = self.state / "opt" / "bin"
        self.libraries = self.state / "opt" / "lib"
        self.gpus = self.state / "gpus"
        self.logs = self.state / "log"
        self.etc = self.state / "etc"
        self.slurm_etc = self.etc / "slurm"
        self.munge = self.state / "munge"
        self.munge_run = self.munge / "run"  # /run/munge of every host
        self.controller_state = self.state / "slurmctld"
        self.database = self.state / "database"

    def host(self, host):
        """The folder of one host."""
        return self.state / "hosts" / host

    def log(self, daemon, host=None):
        """The log that a daemon writes, with times."""
        return self.logs / (f"{daemon}-{host}.log" if host else f"{daemon}.log")

    def stderr(self, daemon, host):
        """All that a daemon says, also before it has read where its log is; without times."""
        return self.logs / f"{daemon}-{host}.stderr"


def node_names(count):
    return [f"n{i}" for i in range(1, count + 1)]


def address(host):
    """RFC 1918, seen only inside the testbed's network namespaces; hence the same for every testbed."""
    if host == CONTROLLER:
        return "10.77.0.2"
    return f"10.77.1.{int(host[1:])}"


NETWORK_PREFIX = 16


def hardware_address(host):
    """Fixed, so that a packet can be told by its sender whatever the protocol."""
    return "02:6d:74:" + ":".join(f"{int(part):02x}" for part in address(host).split(".")[1:])


def port_of(host):
    """The name of the bridge's end of a host's cable, in the switch's namespace."""
    return f"to-{host}"


def user_id(user):
    """Numbers outside the ranges that Debian hands out, so that they name nobody on the machine itself."""
    return 61500 + USERS.index(user)
