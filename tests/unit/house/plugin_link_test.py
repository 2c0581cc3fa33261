#!/usr/bin/env python3
"""The SPANK plugin is a doorman: what it needs and what it exports, read from the built file.

Usage: plugin_link_test.py SPANK_MUSTER_SO
"""

import re
import subprocess
import sys
import unittest

PLUGIN = sys.argv.pop(1)

# A user's sbatch must not fail because a library is missing on one node.
MAY_NEED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}
EXPORTS = re.compile(r"^(plugin_name|plugin_type|plugin_version|spank_plugin_version|spank_options|"
                     r"slurm_spank_[a-z_]+)$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class PluginLink(unittest.TestCase):
    def test_needs_only_libc(self):
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", PLUGIN)))
        needed.discard("libasan.so.8")
        needed.discard("libubsan.so.1")
        self.assertEqual(needed - MAY_NEED, set())

    def test_exports_only_spank_symbols(self):
        symbols = [line.split()[-1].split("@")[0]
                   for line in run("nm", "-D", "--defined-only", PLUGIN).splitlines()]
        self.assertEqual([s for s in symbols if not EXPORTS.match(s)], [])
        # Slurm looks these up by name; without one the file is not a plugin.
        for name in ("plugin_name", "plugin_type", "plugin_version", "slurm_spank_init",
                     "slurm_spank_local_user_init", "slurm_spank_task_init"):
            self.assertIn(name, symbols)

    def test_undefined_symbols_are_spank_or_libc(self):
        # Weak ones (w) may stay unresolved; strong ones (U) must be libc's or the host process's.
        strong = [line.split()[-1] for line in
                  run("nm", "-D", "--undefined-only", PLUGIN).splitlines() if line.split()[0] == "U"]
        self.assertIn("spank_option_register", strong)
        foreign = [s for s in strong if "@GLIBC" not in s and not s.startswith("spank_")]
        self.assertEqual([s for s in foreign if s != "slurm_error"], [])


if __name__ == "__main__":
    unittest.main()
