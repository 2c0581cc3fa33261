"""The few system calls and /proc readings that the testbed needs: namespaces, mounts, processes."""

import ctypes
import os
import signal
import time

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
HOST_NAMESPACES = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor, flags):
    _check(_libc.setns(descriptor, flags), "setns")


def mount(source, target, kind=None, flags=0, options=None):
    encode = lambda text: None if text is None else os.fsencode(text)
    _check(
        _libc.mount(encode(source), encode(target), encode(kind), flags, encode(options)),
        f"mount {source} on {target}",
    )


def bind(source, target):
    mount(source, target, None, MS_BIND | MS_REC)


def unmount(target):
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def die_with_parent():
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")


def keep_descriptors_from_programs():
    """What the caller left open must not live on in a program that outlives the caller, who may wait for the
    end of a pipe."""
    for name in os.listdir("/proc/self/fd"):
        try:
            os.set_inheritable(int(name), int(name) <= 2)
        except OSError:
            pass  # that of the listing itself


class Process:
    """A process by number and start time, so that a number used again never names another process."""

    def __init__(self, pid, start):
        self.pid = pid
        self.start = start

    @staticmethod
    def of(pid):
        """The process that has this number now, or None."""
        stat = _stat(pid)
        return Process(pid, stat[1]) if stat else None

    @staticmethod
    def load(path):
        """The process noted in a file by save(), or None."""
        try:
            pid, start = path.read_text().split()
            return Process(int(pid), int(start))
        except (FileNotFoundError, ValueError):
            return None

    def save(self, path):
        write_atomically(path, f"{self.pid} {self.start}\n")

    def state(self):
        """The state letter of /proc/PID/stat; None when the process is gone or only waits to be reaped."""
        stat = _stat(self.pid)
        if stat is None or stat[1] != self.start or stat[0] in "ZX":
            return None
        return stat[0]

    def alive(self):
        return self.state() is not None

    def kill(self, number=signal.SIGKILL):
        """Sends a signal; a process that is gone already is no error."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive():  # the descriptor and the start time together name exactly one process
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)

    def command(self):
        try:
            with open(f"/proc/{self.pid}/cmdline", "rb") as file:
                return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return "?"


def _stat(pid):
    """(state letter, start time in ticks) of a process, or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0].decode(), int(fields[19])


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def namespace(pid, kind):
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return None


def processes_that_see(folder):
    """The processes outside our own mount namespace that have something of `folder` mounted: those of the
    testbed's hosts, whatever they are called and whoever started them."""
    mine = namespace("self", "mnt")
    # By its name, not its path: a mount's root is shown as its own file system has it.
    marker = f"/{folder.name}/".encode()
    answers = {}  # one look for each mount namespace
    found = []
    for pid in all_pids():
        inode = namespace(pid, "mnt")
        if inode in (None, mine):
            continue
        if inode not in answers:
            try:
                with open(f"/proc/{pid}/mountinfo", "rb") as file:
                    answers[inode] = marker in file.read()
            except OSError:
                continue
        process = Process.of(pid)
        if answers[inode] and process:
            found.append(process)
    return found


def kill_and_wait(processes, limit):
    """SIGKILL to all, then waits until they are gone. Returns those still there after `limit` seconds."""
    for process in processes:
        process.kill()
    deadline = time.monotonic() + limit
    left = list(processes)
    while left:
        left = [process for process in left if process.alive()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.01)
    return left


def listens(pid, port):
    """True if something listens on TCP `port` in the network namespace of `pid`."""
    wanted = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}") as file:
                for line in file.readlines()[1:]:
                    fields = line.split()
                    if fields[1].endswith(wanted) and fields[3] == "0A":
                        return True
        except OSError:
            pass
    return False


def mounts_below(folder):
    """Mount points at or below `folder` in our own mount namespace, deepest first."""
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4].encode().decode("unicode_escape") for line in file]
    inside = [p for p in points if p == str(folder) or p.startswith(f"{folder}/")]
    return sorted(inside, key=len, reverse=True)


def write_atomically(path, text, mode=0o644):
    """A reader sees the old file or the new one, never half of one."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.chmod(mode)
    os.replace(temporary, path)


def boot_id():
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
