"""A finding shows where some launch with several processes gets to its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Ddpify
from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="train")
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--save", action="store_true")
parser.add_argument("--export", action="store_true")
parser.add_argument("--sizes", type=int, nargs="+", default=[1])
parser.add_argument("--ckpt")
args = parser.parse_args()

if {test}:
    os.makedirs("out")
"""
LAUNCH = "torchrun --nproc_per_node=4 train.py "


@pytest.mark.parametrize(
    ("test", "commands", "found"),
    [
        ("args.mode == 'export'", (LAUNCH + "--mode train",), False),
        ("args.mode == 'export'", (LAUNCH + "--mode=export",), True),
        ("args.mode == 'export'", (LAUNCH + "--mode $MODE",), True),
        ("args.mode == 'export'", (LAUNCH, "python train.py --mode export"), False),
        ("args.mode == 'export'", (LAUNCH, "srun python train.py --mode export"), True),
        ("args.mode == 'export'", (LAUNCH, "RANK=1 python train.py --mode export"), True),
        ("not args.save", (LAUNCH + "--save",), False),
        ("args.save and args.export", (LAUNCH + "--save", LAUNCH + "--export"), True),
        ("args.save or args.export", (LAUNCH + "--save", LAUNCH + "--export"), True),
        ("args.steps > 100", (LAUNCH + "--steps 10", LAUNCH + "--steps 100"), False),
        ("args.steps > 100", (LAUNCH + "--steps 10", LAUNCH + "--steps 200"), True),
        ("args.sizes != 1", (LAUNCH + "--sizes 1 2",), True),
        ("args.ckpt is None", (LAUNCH + "--ckpt x", "python train.py"), False),
        ("args.save", (LAUNCH, "torchrun --nproc_per_node=1 train.py --save"), False),
        ("args.save", ("torchrun --nproc_per_node=1 train.py --save",), True),
    ],
)
def test_what_launches_of_ranks_give(
    test: str, commands: tuple[str, ...], found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("\n".join(commands) + "\n")
    text = SETUPS["distributed"] + SCRIPT.replace("{test}", test)
    assert bool(lint_text(text, select=("DDP506",))) is found
    assert lint_text(text, select=("DDP506",), strict=True)


def test_what_one_launch_gives_is_not_given_by_another(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(f"{LAUNCH} --save\n{LAUNCH} --export\n")
    training = """
for x, y in loader:
    loss = criterion(model(x), y)
    if {test}:
        with model.no_sync():
            loss.backward()
"""
    for test, found in (("args.save", True), ("args.save and args.export", False)):
        text = SETUPS["distributed"] + SCRIPT.replace("{test}", test)
        assert bool(lint_text(text + training.format(test=test), select=("DDP415",))) is found


MAY_BE_ALONE = """
def init():
    if "RANK" in os.environ:
        rank = int(os.environ["RANK"])
    elif "SLURM_PROCID" in os.environ:
        rank = int(os.environ["SLURM_PROCID"])
    else:
        return
    dist.init_process_group("nccl", rank=rank)

init()
net = nn.Linear(10, 2).cuda()
model = DDP(net) if dist.is_initialized() else nn.DataParallel(net)
os.makedirs("out")
for x, y in DataLoader(dataset, 32):
    criterion(model(x.cuda()), y.cuda()).backward()
"""


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ("torchrun other.py\npython train.py", False),
        ("torchrun other.py", True),
        ("python train.py", True),
        ("torchrun train.py\npython train.py", True),
        ("torchrun other.py\ntorchrun $1\npython train.py", True),
        ("torchrun other.py\nsrun python train.py", True),
    ],
)
def test_a_script_beside_those_that_launchers_start(
    commands: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(commands + "\n")
    imports = SETUPS["distributed"].partition("local_rank = ")[0]
    assert bool(lint_text(imports + MAY_BE_ALONE, select=("DDP506",))) is found
    assert lint_text(imports + MAY_BE_ALONE, select=("DDP506",), strict=True)


@pytest.mark.parametrize(("name", "found"), [("train.ipynb", False), ("train.py", True)])
def test_a_notebook_is_one_process(name: str, found: bool, ddpify: Ddpify, tmp_path: Path) -> None:
    imports = SETUPS["distributed"].partition("local_rank = ")[0]
    text = imports + MAY_BE_ALONE
    cell = {"cell_type": "code", "metadata": {}, "source": text, "outputs": []}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path = tmp_path / name
    path.write_text(json.dumps(notebook) if name.endswith(".ipynb") else text)
    assert ("DDP506" in ddpify("lint", path, "--select", "DDP506").stdout) is found
    assert "DDP506" in ddpify("lint", path, "--select", "DDP506", "--strict").stdout


def test_a_script_that_joins_a_group_in_any_case_has_ranks(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("torchrun other.py\npython train.py\n")
    assert lint_text(SETUPS["distributed"] + 'os.makedirs("out")\n', select=("DDP506",))


SPAWNED = """
{shown}

def main(rank, args):
    dist.init_process_group("nccl", rank=rank, world_size=args.world_size)
    torch.cuda.set_device(rank)
    model = DDP(Net().cuda())
    os.makedirs("out")
    for x, y in DataLoader(dataset, 32):
        criterion(model(x.cuda()), y.cuda()).backward()

parser = argparse.ArgumentParser()
parser.add_argument("--world-size", type=int)
if __name__ == "__main__":
    mp.spawn(main, nprocs=torch.cuda.device_count(), args=(parser.parse_args(),))
"""


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("", True),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0"', False),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"', True),
        ('if epochs < 2:\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0"', True),
    ],
)
def test_a_process_for_each_of_one_gpu(shown: str, found: bool, lint_text: Lint) -> None:
    imports = SETUPS["distributed"].partition("local_rank = ")[0]
    text = imports + SPAWNED.replace("{shown}", shown)
    assert bool(lint_text(text, select=("DDP506",))) is found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("--nodes 4", False),
        ("-n=4 --gpus 1", False),
        ("--nodes 4 --gpus 2", True),
        ("--nodes 4\npython train.py --nodes 4 --gpus 2", True),
        ("--nodes 1", True),
        ("", True),
    ],
)
def test_commands_that_start_one_process_a_node(
    given: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(f"python train.py {given}\n")
    options = (
        'parser.add_argument("-n", "--nodes", type=int, default=1)\n'
        'parser.add_argument("-g", "--gpus", type=int, default=1)\n'
    )
    spawned = SPAWNED.replace("{shown}", "").replace("if __name__", f"{options}if __name__")
    spawned = spawned.replace("torch.cuda.device_count()", "parser.parse_args().gpus")
    imports = SETUPS["distributed"].partition("local_rank = ")[0]
    assert bool(lint_text(imports + spawned, select=("DDP506",))) is found
    assert lint_text(imports + spawned, select=("DDP506",), strict=True)


@pytest.mark.parametrize("call", ["exit()", "sys.exit(0)", "quit()", "os._exit(0)"])
def test_what_stands_behind_the_end_of_the_process(call: str, lint_text: Lint) -> None:
    training = """
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x.cuda()), y.cuda()).backward()
"""
    text = "import sys\n" + SETUPS["distributed"]
    assert lint_text(text + training, select=("DDP102",))
    assert not lint_text(text + f"{call}\n" + training, select=("DDP102",))
    assert lint_text(text + f"if rank > 9:\n    {call}\n" + training, select=("DDP102",))


@pytest.mark.parametrize(
    ("before", "found"), [("pass", True), ("exit()", False), ("if rank > 9: exit()", True)]
)
def test_a_seed_for_what_stands_behind_the_end(before: str, found: bool, lint_text: Lint) -> None:
    training = f"""
def fit():
    for x, y in loader:
        criterion(model(x.cuda()), y.cuda()).backward()

def main():
    torch.manual_seed(0)
    {before}
    fit()

model = DDP(nn.Sequential(nn.Linear(10, 2), nn.Dropout(0.5)).to(device))
main()
"""
    assert bool(lint_text(SETUPS["distributed"] + training, select=("DDP601",))) is found


@pytest.mark.parametrize(
    ("command", "files", "found"),
    [
        (LAUNCH + "--config configs/small.yaml", {"small": "accum: 1", "large": "accum: 4"}, False),
        (LAUNCH + "--config=configs/small.yaml", {"small": "accum: 1", "large": "accum: 4"}, False),
        (LAUNCH + "--config configs/large.yaml", {"small": "accum: 1", "large": "accum: 4"}, True),
        (LAUNCH + "--config other/small.yaml", {"small": "accum: 1", "large": "accum: 4"}, True),
        (LAUNCH, {"small": "accum: 1", "large": "accum: 4"}, True),
        (LAUNCH, {"small": "accum: 1", "large": "accum: 1"}, False),
        (
            LAUNCH + "--config configs/small.yaml",
            {"small": "_base_: large.yaml\naccum: 1", "large": "accum: 4"},
            True,
        ),
    ],
)
def test_the_configuration_that_a_launch_names(
    command: str, files: dict[str, str], found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "configs").mkdir()
    (tmp_path / "README.md").write_text(command + "\n")
    for name, text in files.items():
        (tmp_path / "configs" / f"{name}.yaml").write_text(f"train:\n  {text}\n")
    text = """
import yaml
parser = argparse.ArgumentParser()
parser.add_argument("--config")
cfg = yaml.safe_load(open(parser.parse_args().config))
for x, y in loader:
    loss = criterion(model(x), y)
    if cfg["train"]["accum"] > 1:
        with model.no_sync():
            loss.backward()
"""
    assert bool(lint_text(SETUPS["distributed"] + text, select=("DDP415",))) is found


@pytest.mark.parametrize(("amp", "found"), [("true", True), ("false", False)])
def test_a_scaler_that_the_configuration_switches_off(
    amp: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("torchrun train.py --config config.toml\n")
    (tmp_path / "config.toml").write_text(f"[train]\namp = {amp}\n")
    text = """
import tomllib
cfg = tomllib.load(open("config.toml", "rb"))
scaler = torch.amp.GradScaler("cuda", enabled=cfg["train"]["amp"])
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
    assert bool(lint_text(SETUPS["distributed"] + text, select=("DDP422",))) is found
