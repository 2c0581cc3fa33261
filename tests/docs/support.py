"""A place for a reader: a folder with what the pages speak of, a home, and a mark on every process started there."""

import pathlib
import shutil
import subprocess
import sys
import unittest

import documents

sys.path.insert(0, str(documents.ROOT / "tests" / "support"))
from marked_test import PATIENCE, MarkedTest  # noqa: E402


class ReaderTest(MarkedTest):
    build = None  # the build folder, set by main()

    def setUp(self):
        super().setUp()
        tools = self.folder / "tools"
        for path in (self.folder / "home", tools):
            path.mkdir()
        (tools / "python").symlink_to(sys.executable)
        (self.folder / "build").symlink_to(self.build)
        (self.folder / "scripts").symlink_to(documents.ROOT / "scripts")
        shutil.copy(documents.ROOT / "README.md", self.folder)
        (self.folder / "train.py").write_text(documents.program())
        self.environment["PATH"] = f"{tools}:{self.build}/bin:{self.environment['PATH']}"

    def by_start(self, program):
        """The pids of this test's processes of a program, the oldest first."""
        found = []
        for pid, _ in self.marked():
            try:
                entry = pathlib.Path(f"/proc/{pid}")
                if (entry / "comm").read_text().strip() == program:
                    found.append((int((entry / "stat").read_text().rsplit(")", 1)[1].split()[19]), pid))
            except OSError:
                continue
        return [pid for _, pid in sorted(found)]

    def start(self, command):
        return subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self, process, what, code=0):
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"{what}: no end within {PATIENCE} s\n{process.communicate()[0]}")
        self.assertEqual(process.returncode, code, f"{what}\n{output}")
        return output

    def shell(self, command, code=0, what=None):
        return self.end(self.start(command), what or command, code)


def main():
    """test.py BUILD [unittest's words]"""
    ReaderTest.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
