"""Launch files that start torch.distributed.launch, before and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Ddpify

EXAMPLES = {
    "one line": (
        "python -m torch.distributed.launch --use-env --nproc_per_node=2 t.py --lr 1\n",
        "torchrun --nproc_per_node=2 t.py --lr 1\n",
    ),
    "over lines": (
        "OMP_NUM_THREADS=1 \\\npython3 -u -m torch.distributed.launch \\\n"
        "    --nproc_per_node $N \\\n    --use_env \\\n    t.py \\\n    --lr 1\n",
        "OMP_NUM_THREADS=1 \\\ntorchrun \\\n    --nproc_per_node $N \\\n    t.py \\\n    --lr 1\n",
    ),
    "the module on the next line": (
        "python -m \\\n  torch.distributed.launch --use-env t.py\n",
        "torchrun t.py\n",
    ),
    "an interpreter of its own": (
        "/opt/env/bin/python -m torch.distributed.launch --use_env t.py && ${PY} -m"
        " torch.distributed.launch --use_env t.py\n",
        "/opt/env/bin/python -m torch.distributed.run t.py && ${PY} -m"
        " torch.distributed.run t.py\n",
    ),
    "the script's own option stays": (
        "python -m torch.distributed.launch --use_env t.py --use_env\n",
        "torchrun t.py --use_env\n",
    ),
    "in quotes, in a Makefile": (
        'RUN = "python -m torch.distributed.launch --use-env"\nall:\n\t@$(RUN) t.py\n',
        'RUN = "torchrun"\nall:\n\t@$(RUN) t.py\n',
    ),
}


@pytest.mark.parametrize(("before", "after"), EXAMPLES.values(), ids=EXAMPLES)
def test_convert(before: str, after: str, ddpify: Ddpify, tmp_path: Path) -> None:
    path, output = tmp_path / "run.sh", tmp_path / "run_new.sh"
    path.write_text("#!/bin/bash\n# python -m torch.distributed.launch --use-env\n" + before)
    done = ddpify("convert", path, "-o", output)
    assert done.code == 0, done.stderr
    assert output.read_text() == path.read_text().replace(before, after)
    assert "look at" not in done.stderr
    assert done.stderr.splitlines()[-1] == f"run it: bash {output}"


@pytest.mark.parametrize("before", [before for before, _ in EXAMPLES.values()], ids=EXAMPLES)
def test_lint_mends_the_same(before: str, ddpify: Ddpify, tmp_path: Path) -> None:
    path, output = tmp_path / "run.sh", tmp_path / "new.sh"
    path.write_text(before)
    ddpify("convert", path, "-o", output)
    assert ddpify("lint", path).code == 1
    assert ddpify("lint", path, "--fix").code == 0
    assert path.read_text() == output.read_text()


SCRIPTS = {
    "declares it": ('import argparse\np.add_argument("--local_rank", type=int)\n', "script.py:2"),
    "reads LOCAL_RANK": ('p.add_argument("--local-rank", default=os.environ["LOCAL_RANK"])\n', ""),
    "knows nothing of it": ("import torch\n", ""),
    "is not here": (None, "script.py must read LOCAL_RANK"),
}


@pytest.mark.parametrize(("script", "note"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_that_wants_the_argument_is_named(
    script: str | None, note: str, ddpify: Ddpify, tmp_path: Path
) -> None:
    path = tmp_path / "run.sh"
    path.write_text("python -m torch.distributed.launch --nproc_per_node 2 script.py\n")
    if script is not None:
        (tmp_path / "script.py").write_text(script)
    done = ddpify("convert", path, "-o", "-")
    assert done.stdout == "torchrun --nproc_per_node 2 script.py\n"
    assert ("look at" in done.stderr) == bool(note) and note in done.stderr
    assert ddpify("lint", path, "--fix").code == (1 if note else 0)


def test_an_option_in_a_variable_is_pointed_at(ddpify: Ddpify, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text('ARGS="--use_env"\npython -m torch.distributed.launch $ARGS t.py\n')
    done = ddpify("convert", path, "-o", "-")
    assert f"{path}:1: remove --use-env" in done.stderr


def test_nothing_to_migrate_is_said(ddpify: Ddpify, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("torchrun train.py\n")
    done = ddpify("convert", path, "-o", tmp_path / "new.sh")
    assert done.code == 1 and "nothing here starts torch.distributed.launch" in done.stderr
    assert not (tmp_path / "new.sh").exists()


OLD = "python -m torch.distributed.launch --use_env"


@pytest.mark.parametrize(
    "command",
    [
        f"srun {OLD} --node_rank=$SLURM_NODEID t.py",
        f"srun -N 2 \\\n  {OLD} \\\n  --node_rank ${{SLURM_NODEID}} t.py",
        f'srun bash -c "{OLD} --node_rank=$SLURM_NODEID t.py"',
    ],
)
def test_a_node_number_of_the_batch_host(command: str, ddpify: Ddpify, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text(f"#!/bin/bash\n#SBATCH --nodes=2\n{command}\n")
    done = ddpify("convert", path, "-o", tmp_path / "new.sh")
    line = 2 + command[: command.index("SLURM_NODEID")].count("\n") + 1
    assert done.code == 0, done.stderr
    assert f"{line}: $SLURM_NODEID is expanded on the batch host" in done.stderr.replace("  ", " ")


@pytest.mark.parametrize(
    "command",
    [
        f"srun bash -c '{OLD} --node_rank=$SLURM_NODEID t.py'",
        f'srun bash -c "{OLD} --node_rank=\\$SLURM_NODEID t.py"',
        f"{OLD} --node_rank=$SLURM_NODEID t.py",
        f"# srun {OLD} $SLURM_NODEID\n{OLD} t.py",
    ],
)
def test_a_node_number_of_the_task_itself(command: str, ddpify: Ddpify, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text(f"#!/bin/bash\n{command}\n")
    done = ddpify("convert", path, "-o", tmp_path / "new.sh")
    assert done.code == 0 and "batch host" not in done.stderr
