"""Where each command line of the pages is run. A line without a home fails the test of the pages: give it one here.

The key is the whole line as a reader types it. Kinds:
  run     run here as it is, from a folder with README.md, train.py, build/ and scripts/; must end with 0
  dry     needs Slurm: run here with --dry-run; tests/slurm/test_docs.py runs it for real
  kill    run by the test that kills a rank
  install run here with another prefix
  named   not run here, for the reason given: its program must be there and know the words
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Home:
    kind: str
    reason: str = ""
    # named: words that show that the program knows the command; each ends with 0.
    check: tuple = ()


SETUP = "changes the machine; scripts/test runs it"
TESTBED = "needs root and minutes; tests/slurm/testbed runs it"

HOMES = {
    # README.md
    "scripts/setup": Home("named", SETUP, ("scripts/setup", "--help")),
    "export PATH=$PWD/build/bin:$PATH": Home("run"),
    "muster run --local 2x2 -- muster-train --data README.md --steps 30": Home("run"),
    "kill -9 $(pgrep -n muster-train)": Home("kill", "would end somebody else's; the test kills its own by id"),
    "scripts/setup --build-only": Home("named", SETUP, ("scripts/setup", "--help")),
    "scripts/demo": Home("named", "needs root and a minute; it is a test of its own", ("scripts/demo", "--help")),
    "scripts/test": Home("named", "runs this test", ("scripts/test", "--help")),
    "install -D -t ~/bin build/bin/muster build/bin/rendezvousd": Home("run"),
    # docs/user
    "muster run --local 2x2 -- python train.py": Home("run"),
    "muster plan --local 2x2 -- python train.py": Home("run"),
    "muster submit -N 4 --gpus-per-node=8 -- python train.py": Home("dry"),
    "muster submit --dry-run -N 4 --gpus-per-node=8 -- python train.py": Home("run"),
    "muster status": Home("run"),
    "muster status --json": Home("run"),
    "muster why": Home("run"),
    "muster why --json": Home("run"),
    "muster logs": Home("run"),
    "muster events": Home("run"),
    "muster events --json": Home("run"),
    "muster jobs": Home("run"),
    "muster run --local 2x2 -- muster-train --data README.md --steps 60 --checkpoint-every 20": Home("run"),
    # docs/user/from-torchrun.md shows what a reader deletes.
    'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)': Home("named", "to be deleted"),
    "export MASTER_PORT=29500": Home("named", "to be deleted"),
    "srun torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $MASTER_ADDR:$MASTER_PORT "
    "--max-restarts 3 train.py": Home("named", "to be deleted"),
    # docs/admin
    "cmake --preset release": Home("named", "takes minutes; scripts/setup does it", ("cmake", "--list-presets")),
    "cmake --build --preset release": Home("named", "as above", ("cmake", "--list-presets=build")),
    "cmake --install build --prefix /opt/muster": Home("install"),
    # docs/dev
    "sudo scripts/testbed up": Home("named", TESTBED, ("scripts/testbed", "up", "--help")),
    "sudo scripts/testbed exec ctl srun -N4 hostname": Home("named", TESTBED, ("scripts/testbed", "exec", "--help")),
    "sudo scripts/testbed exec ctl bash": Home("named", TESTBED, ("scripts/testbed", "exec", "--help")),
    "sudo scripts/testbed status": Home("named", TESTBED, ("scripts/testbed", "status", "--help")),
    "sudo scripts/testbed down": Home("named", TESTBED, ("scripts/testbed", "down", "--help")),
}
