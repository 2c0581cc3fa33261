"""The parts of scripts/testbed: a real Slurm cluster on one machine. docs/dev/testbed.md says why it is
built this way; scripts/testbed is the command line."""
