"""A test that starts muster on this machine: a folder of its own, an environment without the surroundings' Slurm and
muster, and a mark in it. Every process of the test carries the mark, so what is left behind is found wherever it
hides: in another session, with another parent, under another name. Only marked processes are ever signalled."""

import os
import pathlib
import shutil
import signal
import tempfile
import time
import unittest
import uuid

# A loaded machine with sanitizers is slow, a hang is longer than this.
PATIENCE = 90
STRANGE = ("SLURM", "MUSTER", "SBATCH")


class MarkedTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-local-"))
        self.addCleanup(self.clean)
        self.mark = uuid.uuid4().hex
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(STRANGE)}
        self.environment.update(MUSTER_TEST_MARK=self.mark, HOME=str(self.folder / "home"), TMPDIR=str(self.folder / "tmp"))
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            self.environment.pop(name, None)
        (self.folder / "tmp").mkdir()

    def clean(self):
        for pid, _ in self.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)

    def marked(self):
        """(pid, command line) of all living processes with this test's mark."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if f"MUSTER_TEST_MARK={self.mark}".encode() not in (entry / "environ").read_bytes().split(b"\0"):
                    continue
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    continue
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append((int(entry.name), line))
            except OSError:
                continue
        return found

    def wait(self, condition, what, limit=PATIENCE):
        """The first true value of the condition."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        self.fail(f"waited {limit} s for {what}: {self.marked()}")
