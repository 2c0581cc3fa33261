"""One host: a process that holds its namespaces, the view of the file system in them, and the two ways in:
start() for daemons, run() for a command of the caller.

The holder is process 1 of the host's own PID namespace. So powering a host off is one signal, after which
the kernel itself ends whatever lived there, double-forked or not; orphans are adopted on their own host, as on
a real machine; and no process of one host can be seen from another. Nothing is pinned or mounted outside: when
the holder is gone, the kernel takes back namespaces, mounts and cables.
"""

import os
import pathlib
import pwd
import signal
import socket
import struct
import subprocess

from . import linux
from .layout import SWITCH, USERS, TestbedError

# A kill takes milliseconds; whatever outlives this is stuck in the kernel.
KILL_LIMIT_S = 20

# In every host's private /run: tells that one stands inside.
MARKER = pathlib.Path("/run/muster-testbed-host")

# Variables of the caller that would be wrong on another "machine" or for another user.
FOREIGN_VARIABLES = ("TMPDIR", "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "MAIL", "OLDPWD", "SUDO_COMMAND",
                     "SUDO_USER", "SUDO_UID", "SUDO_GID")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Host:
    def __init__(self, layout, name):
        self.layout = layout
        self.name = name
        self.folder = layout.host(name)
        self._holder_file = self.folder / "holder.pid"

    def holder(self):
        """Process 1 of the host, or None when it is powered off."""
        process = linux.Process.load(self._holder_file)
        return process if process and process.alive() else None

    def require_holder(self):
        holder = self.holder()
        if holder is None and self.name == SWITCH:
            raise TestbedError("the testbed's switch is gone; `scripts/testbed down`, then `up`")
        if holder is None:
            raise TestbedError(
                f"host {self.name} is powered off; `scripts/testbed power-on {self.name}` starts it")
        return holder

    def processes(self):
        """Every process of the host but its holder."""
        holder = self.holder()
        if holder is None:
            return []
        inode = linux.namespace(holder.pid, "pid")
        pids = [pid for pid in linux.all_pids()
                if pid != holder.pid and linux.namespace(pid, "pid") == inode]
        return [process for process in map(linux.Process.of, pids) if process and process.alive()]

    # ---- power -------------------------------------------------------------------------------------------

    def create(self):
        """Makes the namespaces and their view of the file system. The network has no cable yet."""
        for name, mode in (("tmp", 0o1777), ("var-tmp", 0o1777), ("spool", 0o755), ("cgroup", 0o755)):
            folder = self.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(mode)
        ours, theirs = _report_pair()
        with ours:
            middle = os.fork()
            if middle == 0:
                ours.close()
                self._become_holder(theirs)  # does not return
            theirs.close()
            holder = _receive_report(ours, f"host {self.name}: cannot make its namespaces")
            os.waitpid(middle, 0)
            holder.save(self._holder_file)
            # Only now may it live on without us: were we killed before, it would see the end of the socket.
            ours.send(b"go")

    def destroy(self):
        """Ends every process of the host at once, and waits for it."""
        holder = linux.Process.load(self._holder_file)
        if holder is None:
            return
        left = linux.kill_and_wait([holder] + self.processes(), KILL_LIMIT_S)
        if left:
            names = "; ".join(f"{p.pid} {p.command()}" for p in left)
            raise TestbedError(f"host {self.name}: still alive {KILL_LIMIT_S} s after SIGKILL: {names}")
        self._holder_file.unlink(missing_ok=True)

    def _become_holder(self, report):
        """In a forked child: makes the namespaces; its own child is their process 1."""
        try:
            linux.keep_descriptors_from_programs()
            linux.unshare(linux.HOST_NAMESPACES)
            if os.fork() != 0:
                os._exit(0)
            os.setsid()
            self._build_view()
            report.send(b"ok")
            if report.recv(2) != b"go":
                os._exit(1)
            _default_signals()
            # The kernel reaps the children of a process that ignores SIGCHLD, and that survives exec. So a
            # sleeping process is a whole init.
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            _standard_streams(os.open("/dev/null", os.O_RDWR))
            os.execv("/usr/bin/sleep", [f"testbed-{self.layout.name}-{self.name}", "infinity"])
        except BaseException as error:
            report.send(str(error).encode())
        os._exit(1)

    def _build_view(self):
        """The host's own file system view, made by its process 1."""
        state = self.layout.state
        linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
        # What the private folders would hide must be held before and shown again after.
        hidden = [path for path in (self.layout.checkout, state) if _below_private(path)]
        held = [(path, os.open(path, os.O_PATH)) for path in hidden if path.exists()]

        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        self._mount_sys()
        linux.bind(self.folder / "tmp", "/tmp")
        linux.bind(self.folder / "var-tmp", "/var/tmp")
        linux.mount("tmpfs", "/run", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
        linux.mount("tmpfs", "/dev/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777")
        for path, descriptor in held:
            path.mkdir(parents=True, exist_ok=True)
            linux.bind(f"/proc/self/fd/{descriptor}", path)
            os.close(descriptor)

        os.mkdir("/run/munge")
        linux.bind(self.layout.munge_run, "/run/munge")
        for name in ("hosts", "passwd", "group"):
            linux.bind(self.layout.etc / name, f"/etc/{name}")
        linux.bind(self.layout.slurm_etc, "/etc/slurm")
        MARKER.write_text(f"{self.layout.name} {self.name}\n")
        socket.sethostname(self.name)

    def _mount_sys(self):
        """A /sys that shows this host's interfaces, with the machine's control groups, without which slurmd
        22.05 dies ("No filesystem mounted on /sys/fs/cgroup")."""
        keep = self.folder / "cgroup"
        linux.bind("/sys/fs/cgroup", keep)
        linux.mount("sysfs", "/sys", "sysfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        linux.bind(keep, "/sys/fs/cgroup")
        linux.unmount(keep)

    # ---- ways in -----------------------------------------------------------------------------------------

    def enter(self, flags=linux.HOST_NAMESPACES):
        """Moves the calling process into the host; into the PID namespace only its children."""
        holder = self.require_holder()
        descriptor = os.pidfd_open(holder.pid)
        linux.setns(descriptor, flags)
        os.close(descriptor)

    def start(self, command, log, environment=None):
        """Starts a daemon in the foreground, as root, as an orphan of the host. Returns its Process."""
        command = [str(word) for word in command]
        self.require_holder()
        ours, theirs = _report_pair()
        with ours:
            middle = os.fork()
            if middle == 0:
                ours.close()
                self._become_daemon(command, log, environment or {}, theirs)  # does not return
            theirs.close()
            os.waitpid(middle, 0)
            process = _receive_report(ours, f"host {self.name}: cannot start {command[0]}")
            error = ours.recv(1000)  # ends when exec closes their end
            if error:
                raise TestbedError(
                    f"host {self.name}: cannot start {command[0]}: {error.decode(errors='replace')}")
            return process

    def _become_daemon(self, command, log, environment, report):
        try:
            linux.keep_descriptors_from_programs()
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self.enter()
            child = os.fork()
            if child != 0:
                os.waitpid(child, 0)
                os._exit(0)
            os.setsid()
            if os.fork() != 0:
                os._exit(0)  # whose parent dies inside is adopted by the host's process 1
            report.send(b"ok")
            os.chdir("/")
            os.umask(0o022)
            _default_signals()
            _standard_streams(os.open("/dev/null", os.O_RDWR), output)
            os.execvpe(command[0], command,
                       {"PATH": SYSTEM_PATH, "HOME": "/root", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
                       | environment)
        except BaseException as error:
            report.send(str(error).encode())
        os._exit(1)

    def run(self, command, user, folder):
        """Runs a command of the caller with the caller's streams; returns its exit status as a shell would
        say it. `user` is root or one of USERS. `folder` is kept where the user may go there."""
        self.require_holder()
        self.enter()
        child = os.fork()
        if child == 0:
            self._become_command(command, user, folder)  # does not return
        _pass_signals_to(child)
        while True:
            try:
                _, status = os.waitpid(child, 0)
                break
            except InterruptedError:
                continue
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _become_command(self, command, user, folder):
        code = 126
        try:
            account = pwd.getpwnam(user)
            if user != "root":
                os.initgroups(user, account.pw_gid)
                os.setgid(account.pw_gid)
                os.setuid(account.pw_uid)
            linux.die_with_parent()
            try:
                os.chdir(folder)
            except OSError:
                os.chdir(self.layout.shared)
            _default_signals()
            environment = self.environment(account)
            os.execvpe(command[0], command, environment)
        except FileNotFoundError:
            code = 127
            os.write(2, f"testbed: {self.name}: no command {command[0]} on this host's PATH\n".encode())
        except BaseException as error:
            os.write(2, f"testbed: {self.name}: cannot run {command[0]} as {user}: {error}\n".encode())
        os._exit(code)

    def environment(self, account):
        """The caller's variables, those of another machine or user replaced."""
        # Folders closed to the user would turn "not found" into "permission denied".
        usable = [folder for folder in os.environ.get("PATH", SYSTEM_PATH).split(":")
                  if os.access(folder, os.X_OK)]
        variables = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
        variables |= {
            "PATH": ":".join([str(self.layout.programs)] + usable),
            "HOME": account.pw_dir,
            "USER": account.pw_name,
            "LOGNAME": account.pw_name,
            "SHELL": account.pw_shell,
            "PWD": os.getcwd(),
            "TMPDIR": "/tmp",  # the host's own
        }
        return variables

    def output(self, command, limit_s=10):
        """What a root command prints on this host (both streams) and its exit status; (None, text) when it
        took longer than the limit: a hung daemon must not hang the testbed."""
        self.require_holder()
        try:
            done = subprocess.run(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=limit_s, cwd="/",
                # Not the PID namespace: the command itself stays our child, so that we can end it.
                preexec_fn=lambda: self.enter(linux.HOST_NAMESPACES & ~linux.CLONE_NEWPID))
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            return None, f"no answer within {limit_s} s"


def inside_a_host():
    """The name of the testbed host that this process runs on, or None on the machine itself."""
    try:
        return MARKER.read_text().split()[1]
    except (OSError, IndexError):
        return None


def _below_private(path):
    return any(path.is_relative_to(private) for private in ("/tmp", "/var/tmp", "/run", "/dev/shm"))


def _report_pair():
    """A socket pair on which a child in another PID namespace reports: the kernel attaches its number as we
    see it. "ok" means all is well; any other text is the error."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def _receive_report(sock, what):
    data, ancillary, _, _ = sock.recvmsg(1000, socket.CMSG_SPACE(struct.calcsize("3i")))
    credentials = [content for level, kind, content in ancillary
                   if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS]
    if data != b"ok" or not credentials:
        raise TestbedError(f"{what}: {data.decode(errors='replace') or 'the process died'}")
    pid = struct.unpack("3i", credentials[0][:12])[0]
    process = linux.Process.of(pid)
    if process is None:
        raise TestbedError(f"{what}: the process died at once")
    return process


def _default_signals():
    """Undoes what Python ignores and what the testbed's command line caught."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
                   signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _standard_streams(null, output=None):
    os.dup2(null, 0)
    os.dup2(null if output is None else output, 1)
    os.dup2(null if output is None else output, 2)


def _pass_signals_to(child):
    """A signal for `testbed exec` is meant for the command. What a terminal sends reaches it anyway."""
    terminal = os.isatty(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT,
                   signal.SIGQUIT, signal.SIGCONT):
        if terminal and number in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        else:
            signal.signal(number, lambda number, _: _send(child, number))


def _send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def is_user(name):
    return name == "root" or name in USERS
