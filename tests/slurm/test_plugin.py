"""srun --muster: every task has its rank, address and port, by option, by #SBATCH and by variable."""

import unittest

from slurm_test import SlurmTest

SHOW = "sh -c 'echo view $RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $(hostname)'"


class Plugin(SlurmTest):
    def check_views(self, output, world):
        views = sorted((line.split("view ", 1)[1].split() for line in output.splitlines() if "view " in line),
                       key=lambda view: int(view[0]))
        self.assertEqual([view[0] for view in views], [str(rank) for rank in range(world)], output)
        self.assertEqual({view[1] for view in views}, {str(world)})
        self.assertEqual(len({view[2] for view in views}), 1)
        return views

    def test_every_task_has_its_place(self):
        job = self.submit(f"srun --muster -N4 --ntasks-per-node=2 {SHOW}", head=["--nodes=4", "--ntasks-per-node=2"])
        views = self.check_views(self.finish(job, 60), 8)
        self.assertEqual(len({view[3] for view in views}), 4)

    def test_sbatch_option_reaches_every_srun_and_zero_switches_it_off(self):
        job = self.submit(f"srun -N2 -n2 {SHOW}", "echo between", f"MUSTER=0 srun -N2 -n2 {SHOW}",
                          head=["--nodes=2", "--muster"])
        first, second = self.finish(job, 60).split("between")
        self.check_views(first, 2)
        self.assertEqual([line.split() for line in second.splitlines() if "view" in line][0][1:2], [":"], second)

    def test_variable_is_the_options_twin(self):
        job = self.submit(f"MUSTER=name=exp1 srun -N2 -n2 {SHOW}", head=["--nodes=2"])
        self.check_views(self.finish(job, 60), 2)

    def test_four_at_once_on_the_same_nodes(self):
        # Separate jobs of one task a node: the nodes have 8 CPUs each.
        jobs = [self.submit(f"srun --muster -N4 --ntasks-per-node=2 {SHOW}; sleep 1",
                            head=["--nodes=4", "--ntasks-per-node=2"]) for _ in range(4)]
        ports = set()
        for job in jobs:
            ports.add(self.check_views(self.finish(job, 90), 8)[0][2])
        self.assertEqual(len(ports), 4)

    def test_exit_code_of_a_failing_task(self):
        job = self.submit("srun --muster -N2 -n2 sh -c '[ $RANK = 1 ] && exit 9; sleep 20'", head=["--nodes=2"])
        self.finish(job, 40, "FAILED")
        self.assertEqual(self.exit_code(job), 9)

    def test_without_the_option_nothing_changes(self):
        job = self.submit("srun -N2 -n2 sh -c 'env | grep -c ^MUSTER'", head=["--nodes=2"])
        output = self.finish(job, 40, "FAILED")  # grep -c finds nothing: 1
        self.assertEqual([line for line in output.splitlines() if line.isdigit()], ["0", "0"], output)

    def test_a_list_that_cannot_be_read_is_named(self):
        job = self.submit("srun --muster=Name=x -N2 -n2 true", head=["--nodes=2"])
        output = self.finish(job, 40, "FAILED")
        self.assertIn("Name=x", output)


if __name__ == "__main__":
    unittest.main()
