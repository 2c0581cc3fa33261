"""The cables: one bridge in the switch's namespace, and a veth pair from it to each host. No name or address
of it is ever in the machine's own network namespace."""

import re
import subprocess

from . import linux
from .layout import NETWORK_PREFIX, SWITCH, TestbedError, address, hardware_address, port_of
from .host import Host

_RATE = re.compile(r"[1-9][0-9]*(\.[0-9]+)?[kmg]?(bit|bps)")
# The nftables table that `block` owns in a host.
_TABLE = "muster_testbed"


def create_bridge(layout):
    _ip(Host(layout, SWITCH), f"""
        link set lo up
        link add {layout.name} type bridge forward_delay 0 stp_state 0
        link set {layout.name} up""")


def plug_in(layout, name):
    """A new cable from the bridge to a host, whose end there is called eth0."""
    host = Host(layout, name)
    port = port_of(name)
    holder = host.require_holder()
    unplug(layout, name)
    _ip(Host(layout, SWITCH), f"""
        link add {port} type veth peer name eth0 address {hardware_address(name)} netns {holder.pid}
        link set {port} master {layout.name} up""")
    _ip(host, f"""
        link set lo up
        address add {address(name)}/{NETWORK_PREFIX} dev eth0
        link set eth0 up""")


def unplug(layout, name):
    """Takes the cable away, if there is one: the kernel may keep that of a dead host for a while."""
    if _port_exists(layout, name):
        _ip(Host(layout, SWITCH), f"link del {port_of(name)}")


def _port_exists(layout, name):
    code, _ = Host(layout, SWITCH).output(["ip", "link", "show", port_of(name)])
    return code == 0


def set_link(layout, name, wanted):
    """`wanted` is up (which also ends a limit), down, or a rate such as 100mbit."""
    switch, host, port = Host(layout, SWITCH), Host(layout, name), port_of(name)
    if wanted in ("up", "down"):
        # At the bridge's end: the host sees its cable lose the carrier and keeps its address.
        _ip(switch, f"link set {port} {wanted}")
        if wanted == "down":
            return
        for side, device in ((switch, port), (host, "eth0")):
            side.output(["tc", "qdisc", "del", "dev", device, "root"])  # an error when there is none
        return
    if not _RATE.fullmatch(wanted):
        raise TestbedError(f"link {name}: {wanted!r} is neither up, down nor a rate such as 100mbit")
    _ip(switch, f"link set {port} up")
    for side, device in ((switch, port), (host, "eth0")):
        _command(side, ["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", wanted,
                        # One segment offloaded by the kernel is up to 64 KB; a smaller bucket would drop
                        # it for ever.
                        "burst", "128kb", "latency", "50ms"])


def set_blocks(layout, name, sources):
    """Host `name` drops every IP packet, of either version, from the hosts in `sources` and from no other. Its
    own packets still leave, and ARP passes: else the open direction would close too."""
    host = Host(layout, name)
    # Creates the table, deletes it, creates it anew: in one transaction, and right whether it was there or not.
    rules = f"table inet {_TABLE} {{ }}\ndelete table inet {_TABLE}\n"
    if sources:
        cards = ", ".join(hardware_address(source) for source in sources)
        rules += f"""table inet {_TABLE} {{
            chain arriving {{
                type filter hook prerouting priority -300
                ether saddr {{ {cards} }} drop
            }}
        }}
        """
    _command(host, ["nft", "-f", "-"], rules)


def link_state(layout, name):
    """up, down, or the rate, as the bridge's end of the cable has it."""
    port = port_of(name)
    code, text = Host(layout, SWITCH).output(["ip", "-o", "link", "show", port])
    if code != 0:
        return "down"
    if "state UP" not in text:
        return "down"
    shaped = re.search(r"\btbf\b.* rate (\S+)",
                       Host(layout, SWITCH).output(["tc", "qdisc", "show", "dev", port])[1])
    return shaped.group(1).lower() if shaped else "up"


def _ip(host, commands):
    lines = "\n".join(line.strip() for line in commands.strip().splitlines())
    _command(host, ["ip", "-batch", "-"], lines + "\n")


def _command(host, command, text=""):
    """Runs a network tool in the host's network namespace, and only that one: the tools and the /proc are the
    machine's, so that `netns PID` means the number that we know."""
    host.require_holder()
    done = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          preexec_fn=lambda: host.enter(linux.CLONE_NEWNET))
    if done.returncode != 0:
        raise TestbedError(f"host {host.name}: `{' '.join(command)}` failed ({done.returncode}): "
                           f"{done.stdout.strip()}\n{text.strip()}")
