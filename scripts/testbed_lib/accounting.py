"""slurmdbd and a MariaDB of its own: in the controller's namespaces, without TCP, nothing of the machine's
own database touched."""

from . import linux, slurm
from .layout import CONTROLLER, USERS, TestbedError

_INSTALL_LIMIT_S = 60
# A fresh MariaDB is ready in two seconds; one that recovers from a kill may need some more.
_START_LIMIT_S = 60


def create_database(layout, host):
    """Makes the database's folder and slurmdbd's configuration."""
    layout.database.mkdir(parents=True, exist_ok=True)
    code, text = host.output(
        ["mariadb-install-db", "--no-defaults", "--user=root", "--skip-test-db", "--skip-name-resolve",
         "--auth-root-authentication-method=normal", f"--datadir={layout.database / 'data'}",
         "--innodb-log-file-size=4M"], _INSTALL_LIMIT_S)
    if code != 0:
        raise TestbedError(f"mariadb-install-db failed ({code}):\n{text}")
    # slurmdbd insists on a file of its user that nobody else can read.
    linux.write_atomically(layout.slurm_etc / "slurmdbd.conf", "".join(f"{line}\n" for line in (
        "AuthType=auth/munge",
        f"DbdHost={CONTROLLER}",
        "SlurmUser=root",
        f"LogFile={layout.log('slurmdbd')}",
        f"PidFile={layout.host(CONTROLLER) / 'slurmdbd.own.pid'}",
        "DebugLevel=verbose",
        "StorageType=accounting_storage/mysql",
        "StorageHost=localhost",  # means the socket that MYSQL_UNIX_PORT names
        "StorageUser=root",
        "StorageLoc=slurm_acct_db",
    )), mode=0o600)


def environment(layout):
    """slurmdbd cannot be told a socket in its configuration; the client library takes it from here."""
    return {"MYSQL_UNIX_PORT": str(layout.database / "socket")}


def database_command(layout):
    return ["/usr/sbin/mariadbd", "--no-defaults", "--user=root", f"--datadir={layout.database / 'data'}",
            f"--socket={layout.database / 'socket'}", f"--pid-file={layout.database / 'own.pid'}",
            "--skip-networking", "--skip-name-resolve", "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=4M", "--innodb-lock-wait-timeout=900"]


def database_ready(layout, host):
    code, _ = host.output(["mariadb-admin", "--no-defaults", "--user=root",
                           f"--socket={layout.database / 'socket'}", "ping"])
    return code == 0


def wait_for_database(layout, host, process):
    slurm.Wait("MariaDB", _START_LIMIT_S).until(
        lambda: database_ready(layout, host), [("mariadbd", process, layout.stderr("mariadbd", host.name))])


def register(layout, host):
    """The cluster, one account, and the users in it."""
    for words in (["cluster", layout.name], ["account", "muster", "Description=testbed"],
                  *(["user", user, "account=muster"] for user in USERS)):
        code, text = host.output(["sacctmgr", "-i", "add"] + words, 20)
        if code != 0 and "already exists" not in text and "Nothing new added" not in text:
            raise TestbedError(f"`sacctmgr add {' '.join(words)}` failed ({code}):\n{text}\n"
                               f"Last lines of slurmdbd's log:\n{slurm.last_lines(layout.log('slurmdbd'))}")
