"""The testbed's folders and files outside Slurm's configuration."""

import os
import shutil
import stat

from . import linux
from .layout import CONTROLLER, USERS, address, node_names, user_id


def make_state(layout, record):
    """All folders and files but Slurm's own; `record` are the settings."""
    for folder in (layout.state, layout.etc, layout.logs, layout.gpus, layout.munge_run,
                   layout.controller_state, layout.programs, layout.libraries, layout.shared / "home"):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # whatever the caller's umask is
    (layout.state / "hosts").mkdir(mode=0o755)
    layout.shared.chmod(0o1777)
    for user in USERS:
        home = layout.shared / "home" / user
        home.mkdir()
        home.chmod(0o700)
        os.chown(home, user_id(user), user_id(user))
    for number in range(record["gpus"]):
        # Slurm sets CUDA_VISIBLE_DEVICES only for devices. 195 is NVIDIA's number: nothing answers there
        # unless the machine has such a GPU, and then only root may open these.
        os.mknod(layout.gpus / f"gpu{number}", stat.S_IFCHR | 0o600, os.makedev(195, number))
    _write_etc(layout, record)
    key = os.open(layout.munge / "key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(key, os.urandom(128))
    os.close(key)


def _write_etc(layout, record):
    """Files of /etc that hosts see in place of the machine's."""
    hosts = [CONTROLLER] + node_names(record["nodes"])
    lines = ["127.0.0.1 localhost"] + [f"{address(name)} {name}" for name in hosts]
    linux.write_atomically(layout.etc / "hosts", "\n".join(lines) + "\n")
    for name, line in (("passwd", "{user}:x:{id}:{id}::{home}:/bin/bash"), ("group", "{user}:x:{id}:")):
        with open(f"/etc/{name}") as file:
            kept = [l for l in file.read().splitlines() if l.split(":")[0] not in USERS]
        ours = [line.format(user=user, id=user_id(user), home=layout.shared / "home" / user)
                for user in USERS]
        linux.write_atomically(layout.etc / name, "\n".join(kept + ours) + "\n")


def refresh(layout, build):
    """Copies the built programs and libraries to where the hosts' users can read them: a checkout may be closed
    to others, and a plugin should belong to root. Returns the names copied."""
    copied = []
    for source, target, wanted in ((os.path.join(build, "bin"), layout.programs, lambda name: True),
                                   (os.path.join(build, "lib"), layout.libraries,
                                    lambda name: ".so" in name)):
        names = sorted(os.listdir(source)) if os.path.isdir(source) else []
        names = [name for name in names if wanted(name) and os.path.isfile(os.path.join(source, name))]
        for name in set(os.listdir(target)) - set(names):
            (target / name).unlink()
        for name in names:
            temporary = target / f".{name}.new"
            shutil.copyfile(os.path.join(source, name), temporary)
            temporary.chmod(0o755)
            os.replace(temporary, target / name)  # a running program keeps its old file
            copied.append(name)
    return copied
