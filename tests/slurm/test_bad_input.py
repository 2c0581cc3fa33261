"""What is wrong on one node only, with the network or with the plugin: one sentence with the node and the
documented exit code, before any worker starts."""

import re
import struct
import subprocess
import time
import unittest

from slurm_test import SlurmTest

SCRIPT = "/tmp/muster-test-program"  # /tmp is each host's own


class OneNode(SlurmTest):
    def install(self, *hosts):
        for host in hosts:
            self.driver.run(host, "sh", "-c", f"printf '#!/bin/sh\\necho it-ran $RANK\\n' > {SCRIPT}; chmod +x {SCRIPT}")
            self.addCleanup(self.driver.run, host, "rm", "-f", SCRIPT)

    def test_program_missing_on_one_node_starts_nothing_anywhere(self):
        self.install("n1", "n2")
        job = self.submit(f"muster run -- {SCRIPT}", head=["--nodelist=n[1-3]", "--requeue"])
        output = self.finish(job, 60, "FAILED")
        self.assertEqual(self.exit_code(job), 127, output)
        self.assertRegex(output, rf"n3 cannot take part: program {SCRIPT} is not there on node n3")
        self.assertNotIn("it-ran", output)
        self.assertEqual(self.driver.job(job)["Restarts"], "0")

    def test_a_spare_that_has_the_program_takes_the_place(self):
        self.install("n1", "n3")
        job = self.submit(f"muster run -N 2 --spares 1 -- {SCRIPT}", head=["--nodelist=n[1-3]"])
        output = self.finish(job, 60)
        self.assertEqual(sorted(re.findall(r"it-ran \d", output)), ["it-ran 0", "it-ran 1"])
        self.assertRegex(output, r"n2 cannot take part: program .* on node n2")

    def test_folders_that_are_another_one_on_a_node(self):
        for option, folder in (("--state-dir", "/tmp/muster-test-state"), ("--log-dir", "/tmp/muster-test-logs")):
            with self.subTest(option):
                job = self.submit(f"muster run {option}={folder} -- sh -c 'echo it-ran'", head=["--nodelist=n[1-2]"])
                output = self.finish(job, 60, "FAILED")
                self.driver.run("n1", "rm", "-rf", folder)
                self.assertEqual(self.exit_code(job), 64, output)
                self.assertRegex(output, rf"n2 cannot take part: .*{folder}.* on node n2.*{option}")
                self.assertNotIn("it-ran", output)

    def test_a_node_that_cannot_reach_the_batch_host(self):
        self.driver.testbed("block", "n2", "n1")
        job = self.submit("muster run --form-timeout 8s -- sh -c 'echo it-ran'", head=["--nodelist=n[1-2]"])
        output = self.finish(job, 40, "FAILED")
        self.assertEqual(self.exit_code(job), 69, output)
        self.assertRegex(output, r"waiting for n2.*until")
        self.assertNotIn("it-ran", output)

    def test_tasks_that_differ_by_node_are_a_world_of_srun(self):
        job = self.submit("srun --muster sh -c 'echo it-ran $RANK $WORLD_SIZE'", head=["--nodes=2", "--ntasks=3"])
        output = self.finish(job, 60)
        self.assertEqual(sorted(re.findall(r"it-ran (\d) 3", output)), ["0", "1", "2"], output)


class OldPlugin(SlurmTest):
    def plugin_of_another_slurm(self):
        """A copy of the plugin whose plugin_version is of the next major number."""
        data = bytearray((self.driver.layout.libraries / "spank_muster.so").read_bytes())
        symbols = subprocess.run(["nm", "-D", self.driver.layout.libraries / "spank_muster.so"],
                                 capture_output=True, text=True, check=True).stdout
        address = int(re.search(r"^([0-9a-f]+) R plugin_version$", symbols, re.M).group(1), 16)
        programs, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
        for i in range(count):
            kind, _, offset, start, _, length = struct.unpack_from("<IIQQQQ", data, programs + i * size)
            if kind == 1 and start <= address < start + length:
                at = offset + address - start
                version = struct.unpack_from("<I", data, at)[0]
                struct.pack_into("<I", data, at, version + 0x010000)
                path = self.driver.shared / "spank_muster_of_another_slurm.so"
                path.write_bytes(data)
                return path
        self.fail("plugin_version is in no part of the file")

    def test_jobs_go_on_without_it_and_srun_names_the_option(self):
        plugstack = self.driver.layout.slurm_etc / "plugstack.conf"
        before = plugstack.read_text()
        self.addCleanup(plugstack.write_text, before)
        plugstack.write_text(f"optional {self.plugin_of_another_slurm()}\n")
        plain = self.driver.run("ctl", "srun", "-N2", "hostname", check=False)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertEqual(len(plain.stdout.split()), 2)
        started = time.monotonic()
        wanted = self.driver.run("ctl", "srun", "--muster", "-N2", "hostname", check=False)
        self.assertNotEqual(wanted.returncode, 0)
        self.assertEqual(wanted.stdout, "")
        self.assertIn("unrecognized option '--muster'", wanted.stderr)
        self.assertLess(time.monotonic() - started, 20)


if __name__ == "__main__":
    unittest.main()
