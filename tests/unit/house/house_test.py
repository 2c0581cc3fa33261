#!/usr/bin/env python3
"""Holds the house's rules: who may include whom, how long a file may be, no unfinished places.

Usage: house_test.py SOURCE_DIR. Prints one line per violation and exits 1 if there is one.
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()

# Folder -> prefixes of our own headers that it may include besides its own. The longest matching
# folder counts. CONTRIBUTING.md has the same table for people.
MAY_INCLUDE = {
    "common": [],
    "proto": [],
    "rendezvousd/protocol": ["common/"],
    "rendezvousd/core": ["rendezvousd/protocol/", "common/"],
    "rendezvousd/server": ["rendezvousd/core/", "rendezvousd/protocol/", "proto/", "muster/v1/", "common/"],
    "rendezvousd/client": ["rendezvousd/protocol/", "proto/", "muster/v1/", "common/"],
    "checkpoint": ["common/"],
    "launcher": ["launcher/", "rendezvousd/client/", "rendezvousd/protocol/", "checkpoint/", "proto/", "common/"],
    "launcher/slurm": ["proto/environment.h", "common/"],
    "launcher/network": ["proto/environment.h", "common/"],
    "trainer_runtime": ["trainer_runtime/", "checkpoint/", "common/", "proto/local.h", "proto/environment.h"],
    "spank_plugin": ["proto/environment.h", "common/"],
}
OUR_TOP = ("common/", "proto/", "rendezvousd/", "checkpoint/", "launcher/", "trainer_runtime/",
           "spank_plugin/", "muster/v1/")
# Foreign headers that only the named folders may see: they cost compile time or bring symbols.
FOREIGN = {
    "grpc": ["rendezvousd/server", "rendezvousd/client"],
    "google/protobuf": ["rendezvousd/protocol", "rendezvousd/server", "rendezvousd/client"],
    "CLI/": ["launcher/cli", "launcher/config", "trainer_runtime/muster_train"],
    "boost/": ["launcher", "rendezvousd/server"],
    "slurm/": ["spank_plugin", "launcher/slurm/helper"],
    "gloo/": ["trainer_runtime/comm"],
}
# Conversion is the one place of protocol/ where protobuf may be seen.
CONVERSION = re.compile(r"^rendezvousd/protocol/conversion[a-z_]*\.(cc|h)$")
LINES_MAX = 500
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', re.M)


def sources():
    for folder in ("common", "proto", "rendezvousd", "checkpoint", "launcher", "trainer_runtime",
                   "spank_plugin"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def folder_of(name, table):
    best = None
    for folder in table:
        if name.startswith(folder + "/") and (best is None or len(folder) > len(best)):
            best = folder
    return best


class House(unittest.TestCase):
    def test_our_includes_follow_the_table(self):
        wrong = []
        for name, text in sources():
            folder = folder_of(name, MAY_INCLUDE)
            self.assertIsNotNone(folder, f"{name} is in no folder of the table")
            allowed = [folder + "/"] + MAY_INCLUDE[folder]
            if CONVERSION.match(name):
                allowed = allowed + ["muster/v1/", "proto/"]
            for header in INCLUDE.findall(text):
                if header.startswith(OUR_TOP) and not header.startswith(tuple(allowed)):
                    wrong.append(f"{name} includes {header}")
        self.assertEqual(wrong, [])

    def test_foreign_includes_stay_in_their_rooms(self):
        wrong = []
        for name, text in sources():
            for header in INCLUDE.findall(text):
                for prefix, rooms in FOREIGN.items():
                    if header.startswith(prefix) and not name.startswith(tuple(r + "/" for r in rooms)):
                        wrong.append(f"{name} includes {header}")
        self.assertEqual(wrong, [])

    def test_headers_of_heavy_libraries_stay_out_of_headers(self):
        wrong = [f"{name} includes {header}" for name, text in sources() if name.endswith(".h")
                 for header in INCLUDE.findall(text) if header.startswith(("grpcpp/", "CLI/"))]
        # The reactors of the server are classes on gRPC's own types.
        wrong = [line for line in wrong if not line.startswith("rendezvousd/server/")
                 and not line.startswith("rendezvousd/client/")]
        self.assertEqual(wrong, [])

    def test_files_are_one_idea_long(self):
        long = [f"{name}: {text.count(chr(10))} lines" for name, text in sources()
                if text.count("\n") > LINES_MAX]
        self.assertEqual(long, [])

    def test_headers_begin_with_pragma_once_and_say_what_they_are(self):
        wrong = []
        for name, text in sources():
            if not name.endswith(".h"):
                continue
            if not text.startswith("#pragma once\n"):
                wrong.append(f"{name}: no #pragma once on the first line")
            elif not text[len("#pragma once\n"):].lstrip().startswith("//"):
                wrong.append(f"{name}: the header does not say what it is")
        self.assertEqual(wrong, [])

    def test_no_unfinished_places(self):
        mark = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
        wrong = [f"{name}: {line.strip()}" for name, text in sources() for line in text.splitlines()
                 if mark.search(line)]
        self.assertEqual(wrong, [])

    def test_core_reads_no_clock_and_no_file(self):
        banned = re.compile(r"SteadyNow|steady_clock::now|system_clock::now|<thread>|<mutex>|<fstream>|"
                            r"<iostream>|random_device|<unordered_map>|<unordered_set>|getenv")
        wrong = [f"{name}: {banned.search(text).group(0)}" for name, text in sources()
                 if name.startswith("rendezvousd/core/") and banned.search(text)]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
