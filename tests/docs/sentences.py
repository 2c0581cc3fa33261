"""What the programs say when something is wrong, read from their sources."""

import re

import documents

SOURCES = ("common", "launcher", "rendezvousd", "spank_plugin", "trainer_runtime")
# Where sentences come from that a person meets at the prompt or in the job's output.
FOR_READERS = ("launcher/cli/", "launcher/config/", "launcher/host/", "launcher/slurm/allocation.cc",
               "launcher/slurm/sbatch_", "launcher/slurm/run_command.cc", "launcher/slurm/requeue.cc",
               "launcher/agent/exec_stage.cc", "launcher/agent/files.cc", "launcher/agent/node_lock.cc",
               "rendezvousd/core/restart_policy.cc", "spank_plugin/", "trainer_runtime/muster_train/")
# Not in the page, with the reason.
NOT_FOR_READERS = {
    "cannot read /proc/self/exe": "a machine without /proc",
    "no endpoint is known": "a file of ours that was edited by hand",
    "it resolves to the loopback address": "part of a sentence that is there",
    "its name does not resolve": "part of a sentence that is there",
    "the agent died at a worker's start": "the agent's end is told elsewhere",
    "agent-exec is started by": "nobody starts it by hand",
    "warning: ": "a prefix",
    "muster-train: ": "a prefix",
    "printed more than 32 MiB": "no program of Slurm does",
    "was taken and removed again and again": "a race that nobody wins for a hundred times",
    ", where a folder gives: ": "part of a sentence that is there",
    "pipe: ": "the system's own words follow",
}
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ERROR = re.compile(r"\b(?:InvalidArgument|FailedPrecondition|NotFound|Unavailable|ResourceExhausted|AlreadyExists|"
                   r"PermissionDenied|DataLoss|DeadlineExceeded|LogError|Fail|Wrong|Close)\(")


def sources():
    for folder in SOURCES:
        for path in sorted((documents.ROOT / folder).rglob("*.cc")):
            # Strings that stand one behind the other are one.
            yield (path.relative_to(documents.ROOT).as_posix(),
                   re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8")))


def literals(text):
    return [found.replace('\\"', '"') for found in STRING.findall(text)]


def all_literals():
    for _, text in sources():
        yield from literals(text)


def argument(text, start):
    """What stands between the bracket before `start` and its other half."""
    depth, at = 1, start
    while depth and at < len(text):
        if text[at] == '"':
            at = STRING.match(text, at).end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start:at - 1]


def errors():
    """(file, the fixed parts of an error) in the files that FOR_READERS names."""
    for name, text in sources():
        if not name.startswith(FOR_READERS):
            continue
        for match in ERROR.finditer(text):
            parts = [part for part in literals(argument(text, match.end())) if len(part) > 5]
            if parts:
                yield name, parts
