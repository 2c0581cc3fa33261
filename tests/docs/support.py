"""A place for a reader: a folder with what the pages speak of, a home, and a mark on every process started there."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import documents

# A loaded machine with sanitizers is slow, a hang is longer than this.
PATIENCE_S = 90
# Slurm's own and muster's variables of the surroundings would be taken for the reader's.
STRANGE = ("SLURM", "MUSTER", "SBATCH")


class ReaderTest(unittest.TestCase):
    build = None  # the build folder, set by main()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-docs-"))
        self.addCleanup(self.clean)
        self.mark = uuid.uuid4().hex
        home, temporary, tools = (self.folder / name for name in ("home", "tmp", "tools"))
        for path in (home, temporary, tools):
            path.mkdir(parents=True)
        (tools / "python").symlink_to(sys.executable)
        (self.folder / "build").symlink_to(self.build)
        (self.folder / "scripts").symlink_to(documents.ROOT / "scripts")
        shutil.copy(documents.ROOT / "README.md", self.folder)
        (self.folder / "train.py").write_text(documents.program())
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(STRANGE)}
        self.environment.update(HOME=str(home), TMPDIR=str(temporary), MUSTER_TEST_MARK=self.mark,
                                PATH=f"{tools}:{self.build}/bin:{self.environment['PATH']}")
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            self.environment.pop(name, None)

    def clean(self):
        for pid in self.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)

    def marked(self, program=None):
        """The pids of this test's processes, with a program's name only those of it; by start."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or (program and (entry / "comm").read_text().strip() != program):
                    continue
                if f"MUSTER_TEST_MARK={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((int((entry / "stat").read_text().rsplit(")", 1)[1].split()[19]), int(entry.name)))
            except OSError:
                continue
        return [pid for _, pid in sorted(found)]

    def start(self, command):
        return subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self, process, what, code=0):
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"{what}: no end within {PATIENCE_S} s\n{process.communicate()[0]}")
        self.assertEqual(process.returncode, code, f"{what}\n{output}")
        return output

    def shell(self, command, code=0, what=None):
        return self.end(self.start(command), what or command, code)

    def wait(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        self.fail(f"waited {PATIENCE_S} s for {what}")


def main():
    """test.py BUILD [unittest's words]"""
    ReaderTest.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
