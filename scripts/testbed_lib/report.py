"""What a testbed looks like now, as plain values for people and for tests."""

from . import linux, network, slurm
from .host import Host
from .layout import CONTROLLER, SWITCH, USERS, address, node_names


def status(cluster):
    """What is there, as plain values."""
    record = cluster.record()
    base = {"name": cluster.layout.name, "checkout": str(cluster.layout.checkout)}
    if record is None:
        return base | {"up": False, "left_over": cluster.layout.state.exists()}
    if not record["complete"] or Host(cluster.layout, SWITCH).holder() is None:
        return base | {"up": False, "left_over": True}
    controller = Host(cluster.layout, CONTROLLER)
    states = slurm.node_states(controller) if controller.holder() else None
    hosts = [_host_status(cluster, name, record, states)
             for name in [CONTROLLER] + node_names(record["nodes"])]
    return base | {
        "up": True, "state_folder": str(cluster.layout.state), "accounting": record["accounting"],
        "default_timers": record["default_timers"], "slurm": record["slurm"],
        "controller_answers": states is not None,
        "hosts": hosts, "blocks": [{"from": s, "to": t} for s, t in record["blocks"]]}


def _host_status(cluster, name, record, states):
    host = Host(cluster.layout, name)
    on = host.holder() is not None
    daemons = {}
    for daemon in cluster.daemons_of(name, record):
        process = linux.Process.load(cluster.pid_file(name, daemon))
        letter = process.state() if process and on else None
        daemons[daemon] = {"pid": process.pid if letter else None,
                           "state": "dead" if letter is None else "stopped" if letter == "T" else "running"}
    return {"host": name, "address": address(name), "power": "on" if on else "off",
            "link": network.link_state(cluster.layout, name) if on else "down",
            "processes": len(host.processes()), "daemons": daemons,
            "slurm": (states or {}).get(name) if name != CONTROLLER else None,
            "local_folder": str(host.folder / "tmp")}


def variables(cluster):
    """NAME, value pairs for the shell of a test."""
    record = cluster.require_record()
    layout = cluster.layout
    hosts = [CONTROLLER] + node_names(record["nodes"])
    pairs = [("TESTBED_NAME", layout.name), ("TESTBED_STATE", layout.state),
             ("TESTBED_SHARED", layout.shared), ("TESTBED_LOGS", layout.logs),
             ("TESTBED_ETC_SLURM", layout.slurm_etc), ("TESTBED_BIN", layout.programs),
             ("TESTBED_USERS", " ".join(USERS)),
             ("TESTBED_NODES", " ".join(hosts[1:])), ("TESTBED_NODE_COUNT", record["nodes"])]
    for name in hosts:
        pairs += [(f"TESTBED_ADDRESS_{name}", address(name)),
                  (f"TESTBED_LOCAL_{name}", layout.host(name) / "tmp")]
    return [(name, str(value)) for name, value in pairs]
