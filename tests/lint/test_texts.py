"""What a project's documents and shell scripts tell about its PyTorch and its launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.diagnostics import Confidence
from ddpify.understanding.texts import is_for_old_torch
from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

PARSER = """
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
print(parser.parse_args().local_rank)
"""
OLD = (
    "PyTorch 1.13",
    "`torch==1.7.1`",
    "pytorch (1.2)",
    "torch==1.8.0+cu111",
    "python=3.7",
    "conda install pytorch cudatoolkit=11.3 -c pytorch",
)
NOT_OLD = (
    "torch >= 1.8",
    "PyTorch 1.8+",
    "PyTorch 1.8.0 or later",
    "Python 3.6+",
    "torchvision==0.4",
    "python=3.7, torch==2.1",
)


@pytest.mark.parametrize("text", OLD)
def test_texts_that_ask_for_an_old_torch(text: str) -> None:
    assert is_for_old_torch({Path("README.md"): text})


@pytest.mark.parametrize("text", NOT_OLD)
def test_texts_that_allow_a_new_torch(text: str) -> None:
    assert not is_for_old_torch({Path("README.md"): text})


def _confidence(lint_text: Lint) -> list[Confidence]:
    found = lint_text(SETUPS["distributed"] + PARSER, select=("DDP703",), strict=True)
    return [one.confidence for one in found if "--local-rank" in one.message]


def test_the_spelling_of_the_old_launcher(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert _confidence(lint_text) == [Confidence.LIKELY]
    (tmp_path / "README.md").write_text("Tested with PyTorch 1.10\n")
    assert _confidence(lint_text) == [Confidence.POSSIBLE]
    (tmp_path / "README.md").write_text("Needs torch>=2.1\n")
    assert _confidence(lint_text) == [Confidence.LIKELY]
    (tmp_path / "run.sh").write_text("torchrun --nproc_per_node 4 \\\n    train.py\n")
    assert _confidence(lint_text) == [Confidence.POSSIBLE]
    (tmp_path / "old.sh").write_text("python -m torch.distributed.launch train.py\n")
    assert _confidence(lint_text) == [Confidence.LIKELY]
    (tmp_path / "requirements.txt").write_text("torch>=2.0\n")
    assert _confidence(lint_text) == [Confidence.CERTAIN]
    launch = "python -m torch.distributed.launch \\\n    {} train.py\n"
    (tmp_path / "old.sh").write_text(launch.format("--nproc_per_node=4"))
    assert _confidence(lint_text) == [Confidence.CERTAIN]
    (tmp_path / "old.sh").write_text(launch.format("--use_env"))
    assert _confidence(lint_text) == [Confidence.POSSIBLE]


@pytest.mark.parametrize(
    ("said", "sure"),
    [
        ("python tools/train.py --local_rank 0", Confidence.POSSIBLE),
        ("torchrun --nproc_per_node 4 other.py", Confidence.POSSIBLE),
        ("python other.py", Confidence.LIKELY),
        ("python train.py, or torch.distributed.launch", Confidence.LIKELY),
    ],
)
def test_the_old_launcher_is_unlikely_where_texts_say_another_start(
    said: str, sure: Confidence, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(said + "\n")
    assert _confidence(lint_text) == [sure]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python train.py", True),
        ("torchrun --nproc_per_node 4 train.py", False),
        ("python -m torch.distributed.launch --nproc_per_node 4 train.py", False),
        ("torchrun --nnodes=1:1 --nproc_per_node 4 train.py", False),
        ("torchrun --nnodes=1:4 --nproc_per_node 4 train.py", True),
        ("torchrun --node_rank 1 --nproc_per_node 4 train.py", True),
        ("torchrun --nproc_per_node 4 other.py", False),
        ("torchrun --nnodes 2 --nproc_per_node 4 other.py", True),
        ("python other.py", True),
        ("torchrun --nproc_per_node 4 train.py\n    srun python train.py", True),
        ("torchrun --nproc_per_node 4 train.py\n    srun -N 1 python train.py", False),
        ("torchrun --nproc_per_node 4 train.py\n    srun -N 2 python train.py", True),
        ("torchrun --nproc_per_node 4 train.py\n    python submitit_train.py --nodes 4", True),
        ("torchrun --nproc_per_node 4 train.py\n    python train.py --num-machines 2", True),
        ("Worker:\n      replicas: 3\n    torchrun --nproc_per_node 4 train.py", True),
        ("torchrun --nnodes 1 --nproc_per_node 4 tools/other.py", False),
        ("torchrun --nproc_per_node 4 other.py\n    srun python train.py", True),
        ('torchrun --nnodes 1 --nproc_per_node 4 "$1"', False),
        ("torchrun --nnodes $NODES --nproc_per_node 4 train.py", True),
        ("torchrun --nnodes 2 --nproc_per_node 4 train.py", True),
        ("OPTIONS='--nnodes 2'\n    torchrun $OPTIONS train.py", True),
        ("python -m torch.distributed.launch --nnode=1 --node_rank=0 train.py", False),
        ("sbatch --nodes=2 run.sh\n    torchrun --nproc_per_node 4 train.py", True),
        ("sbatch --nodes=1 run.sh\n    torchrun --nproc_per_node 4 train.py", False),
        ("srun -N1 torchrun --nproc_per_node 4 train.py", False),
        ("torchrun --nnodes=1 --nproc_per_node 4 train.py", False),
        ("torchrun --standalone --nproc_per_node 4 -m train --epochs 3", False),
        ("For the GPUs of a single node:\n    torchrun --nproc_per_node 4 train.py", False),
        ("単一ノードの複数 GPU\n    torchrun --nproc_per_node 4 train.py", False),
        ("On a single node or multi-node:\n    torchrun --nproc_per_node 4 train.py", True),
        ("For the GPUs of a single node:\n    python train.py", True),
    ],
)
def test_commands_may_ask_for_one_node(
    command: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(f"    {command}\n")
    text = SETUPS["distributed"] + (
        "other = DDP(Net().to(rank), device_ids=[rank])\n"
        "kinds = {name: at for at, name in enumerate(os.listdir('data'))}\n"
    )
    by_node = {"DDP116", "DDP203"}
    assert {one.code for one in lint_text(text)} & by_node == (by_node if found else set())
    assert by_node <= {one.code for one in lint_text(text, strict=True)}


@pytest.mark.parametrize(
    ("loads", "found"),
    [
        ("model = nn.DataParallel(model)\nmodel.load_state_dict(state)\n", False),
        ("state = {k.replace('module.', ''): v for k, v in state.items()}\n", False),
        ("model.load_state_dict(state)\nmodel = nn.DataParallel(model)\n", True),
    ],
)
def test_another_script_knows_of_the_prefix(
    loads: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / "predict.py").write_text(f"from torch import nn\n{loads}")
    text = SETUPS["distributed"] + "if rank == 0:\n    torch.save(model.state_dict(), path)\n"
    codes = [one.code for one in lint_text(text, select=("DDP503",))]
    assert codes == (["DDP503"] if found else [])


def test_commands_in_a_docstring(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    text = SETUPS["distributed"] + "other = DDP(Net().to(rank), device_ids=[rank])\n"
    said = '"""Train.\n\n    torchrun --nnodes=1 \\\\\n        --nproc_per_node=4 train.py\n"""\n'
    assert "DDP203" in {one.code for one in lint_text(text)}
    assert "DDP203" not in {one.code for one in lint_text(said + text)}
    assert "DDP203" not in {
        one.code for one in lint_text("# torchrun --nnodes=1 train.py\n" + text)
    }


@pytest.mark.parametrize(
    ("said", "sure"),
    [
        ("# torchrun --nproc_per_node 2 train.py", [Confidence.CERTAIN]),
        ('"""\ntorchrun --nproc_per_node 2 \\\n    train.py\n"""', [Confidence.CERTAIN]),
        ('def usage():\n    print("  torchrun train.py")', [Confidence.CERTAIN]),
        ('print("a")\nprint("torchrun \\\\")\nprint("  train.py")', [Confidence.CERTAIN]),
        ("usage = 'torchrun train.py'", []),
        ("# torchrun --nproc_per_node 2 other.py", []),
        ("# train.py is like this", []),
    ],
)
def test_what_a_script_beside_says_of_one(
    said: str, sure: list[Confidence], lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "other.py").write_text(f"{said}\n")
    text = (
        "import argparse\nimport torch\nimport torch.distributed as dist\n"
        "parser = argparse.ArgumentParser()\n"
        'parser.add_argument("--local_rank", "--local-rank", type=int)\n'
        "torch.cuda.set_device(parser.parse_args().local_rank)\n"
        'dist.init_process_group("nccl")\n'
    )
    assert [one.confidence for one in lint_text(text, select=("DDP703",))] == sure


LAUNCHER = """
import os, subprocess, sys
from argparse import ArgumentParser, REMAINDER

parser = ArgumentParser()
parser.add_argument("--nnodes", type=int, default=1)
parser.add_argument("--gpus", type=int, default=2)
parser.add_argument("script")
parser.add_argument("rest", nargs=REMAINDER)
args = parser.parse_args()
env = dict(os.environ, WORLD_SIZE=str(args.gpus * args.nnodes))
started = []
for rank in range(args.gpus):
    env["RANK"] = env["LOCAL_RANK"] = str(rank)
    command = [sys.executable, args.script, f"--local_rank={rank}", *args.rest]
    started.append(subprocess.Popen(command, env=env))
for one in started:
    one.wait()
"""
WORKER = 'command = ["git", "rev-parse", "HEAD"]\nsubprocess.run(command)\n'


@pytest.mark.parametrize(
    ("command", "launcher", "found"),
    [
        ("python start.py train.py --epochs 3", LAUNCHER, False),
        ("CUDA_VISIBLE_DEVICES=0,1 python3 -u ./start.py \\\n    train.py", LAUNCHER, False),
        ("python start.py --gpus 4 train.py", LAUNCHER, False),
        ("python start.py --nnodes 1 train.py", LAUNCHER, False),
        ("nohup python start.py train.py > log.txt &", LAUNCHER, False),
        ("python3.10 -u start.py --gpus 2 ./train.py --epochs 3", LAUNCHER, False),
        ("OMP_NUM_THREADS=4 \\\n    python start.py train.py", LAUNCHER, False),
        ("    $ python start.py train.py", LAUNCHER, False),
        ("python start.py --nnodes 2 train.py", LAUNCHER, True),
        ("python start.py --nnodes $NODES train.py", LAUNCHER, True),
        ("python start.py train.py", LAUNCHER.replace("default=1", "default=4"), True),
        ("python start.py train.py", LAUNCHER.replace('env["RANK"] = ', ""), False),
        ("python start.py train.py", LAUNCHER.replace("env[", "names["), False),
        ("python start.py train.py", WORKER, True),
        ("python start.py other.py", LAUNCHER, True),
        ("python start.py", LAUNCHER, True),
        ("python train.py", LAUNCHER, True),
        ("On several machines, or multi-node:\n    python start.py train.py", LAUNCHER, True),
    ],
)
def test_a_launcher_of_the_project_starts_one_node(
    command: str, launcher: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "run.sh").write_text(f"{command}\n")
    (tmp_path / "start.py").write_text(launcher)
    text = SETUPS["distributed"] + "other = DDP(Net().to(rank), device_ids=[rank])\n"
    assert bool([one for one in lint_text(text) if one.code == "DDP203"]) is found


def test_a_launcher_starts_what_is_in_a_folder(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "run.sh").write_text("python tools/start.py train.py\n")
    text = SETUPS["distributed"] + "other = DDP(Net().to(rank), device_ids=[rank])\n"
    assert [one.code for one in lint_text(text) if one.code == "DDP203"]
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "start.py").write_text(LAUNCHER)
    assert not [one.code for one in lint_text(text) if one.code == "DDP203"]


def test_a_launcher_of_the_project_passes_the_rank(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "run.sh").write_text("python start.py train.py\n")
    script = SETUPS["distributed"] + PARSER
    asked = [("start.py", LAUNCHER), ("start.py", LAUNCHER.replace("--local_rank", "--device"))]
    said = []
    for name, text in asked:
        (tmp_path / name).write_text(text)
        found = lint_text(script.replace('"LOCAL_RANK"', '"NOT_IT"'), select=("DDP703",))
        said.append([one.message[:8] for one in found])
    assert said == [[], ["torchrun"]]
