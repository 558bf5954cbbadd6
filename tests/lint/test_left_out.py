"""What an option asks for that commands with a launcher do not give is done by one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
parser = argparse.ArgumentParser()
parser.add_argument("--submit", action="store_true")
parser.add_argument("--inference_dir")
parser.add_argument("--output", default="out")
args = parser.parse_args()

def show():
    if not os.path.exists(args.output):
        os.makedirs(args.output)

if {test}:
    show()
"""
LAUNCH = "torchrun --nproc-per-node 4 train.py --output $OUT "


@pytest.mark.parametrize(
    ("test", "commands", "found"),
    [
        ("args.submit", (LAUNCH, "python train.py --submit"), False),
        ("args.inference_dir is not None", (LAUNCH, "python train.py --inference-dir x"), False),
        ("args.submit and args.output", (LAUNCH, "python train.py --submit"), False),
        ("args.submit or args.inference_dir", (LAUNCH, "python train.py --submit"), False),
        ("args.submit or args.output", (LAUNCH, "python train.py --submit"), True),
        ("args.submit", (LAUNCH + "--submit", "python train.py --submit"), True),
        ("args.submit", (LAUNCH + "\n" + LAUNCH + "--submit", "python train.py --submit"), True),
        ("args.submit", ("torchrun train.py $OPTIONS", "python train.py --submit"), True),
        ("args.submit", (LAUNCH, "python train.py"), True),
        ("args.submit", (LAUNCH, "python other.py --submit"), True),
        ("args.submit", ("python train.py --submit",), True),
        ("args.output", (LAUNCH, "python train.py --submit"), True),
    ],
)
def test_what_commands_ask_of_one_process_alone(
    test: str, commands: tuple[str, ...], found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("\n".join(commands) + "\n")
    text = SETUPS["distributed"] + SCRIPT.replace("{test}", test)
    assert bool(lint_text(text, select=("DDP506",))) is found
    assert lint_text(text, select=("DDP506",), strict=True)


ACCUMULATING = """
import yaml
from dataclasses import dataclass

@dataclass
class Config:
    steps: int = 1
    sizes: tuple = ()

@dataclass
class Large:
    rounds: int = 1

parser = argparse.ArgumentParser()
parser.add_argument("-a", "--accum", type=int, default=1)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--every", type=int, default=4)
parser.add_argument("--resume")
args = parser.parse_args()
cfg, large, read = Config(), Large(rounds=4), yaml.safe_load(open("config.yaml"))
own = {"accum": 4}

def train(accum):
    for x, y in loader:
        loss = criterion(model(x), y)
        if {test}:
            with model.no_sync():
                loss.backward()

train(args.accum)
"""
ACCUM = "args.accum > 1"


@pytest.mark.parametrize(
    ("test", "command", "found"),
    [
        (ACCUM, "torchrun train.py", False),
        ("accum != 1", "torchrun train.py", False),
        ("int(args.accum) >= 2 and x.sum()", "torchrun train.py", False),
        ("args.amp", "torchrun train.py", False),
        ("cfg.steps > 1", "torchrun train.py", False),
        ("read['train']['accum'] > 1", "torchrun train.py", False),
        ("read.get('unset', 0) > 0", "torchrun train.py", False),
        (ACCUM, "", True),
        (ACCUM, "python other.py", True),
        (ACCUM, "torchrun train.py --accum 4", True),
        (ACCUM, "torchrun train.py --acc=4", True),
        (ACCUM, "torchrun train.py -a 4", True),
        (ACCUM, "torchrun train.py $OPTIONS", True),
        (ACCUM, "torchrun train.py\ntorchrun train.py --accum 4", True),
        ("cfg.steps > 1", "torchrun train.py steps=4", True),
        ("read['train']['accum'] > 1", "torchrun train.py train.accum=4", True),
        ("args.every > 1", "torchrun train.py", True),
        ("args.every > 1 or args.amp", "torchrun train.py", True),
        ("not args.amp", "torchrun train.py", True),
        ("args.resume", "torchrun train.py", True),
        ("large.rounds > 1", "torchrun train.py", True),
        ("own['accum'] > 1", "torchrun train.py", True),
        ("x.accum > 1", "torchrun train.py", True),
        ("read['train']['section'] > 1", "torchrun train.py", True),
        ("cfg.sizes", "torchrun train.py", True),
    ],
)
def test_what_no_command_asks_for(
    test: str, command: str, found: bool, lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(command + "\n")
    (tmp_path / "config.yaml").write_text("train:\n  accum: 1  # none\n  section:\n    - 3\n")
    text = SETUPS["distributed"] + ACCUMULATING.replace("{test}", test)
    assert bool(lint_text(text, select=("DDP415",))) is found
    assert lint_text(text, select=("DDP415",), strict=True)


def test_a_configuration_that_sets_an_option(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("torchrun train.py\n")
    text = SETUPS["distributed"] + ACCUMULATING.replace("{test}", ACCUM)
    for sets, found in (("lr = 0.1", False), ("accum = 1", False), ("accum = 4", True)):
        (tmp_path / "configs").mkdir(exist_ok=True)
        (tmp_path / "configs" / "large.toml").write_text(f"[train]\n{sets}\n")
        assert bool(lint_text(text, select=("DDP415",))) is found


def test_what_distributes_and_what_goes_on_is_asked_for_later(
    lint_text: Lint, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("python train.py\n")
    options = """
parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
parser.add_argument("--again", action="store_true")
args = parser.parse_args()
if args.distributed:
    other = DDP(Net().to(device))
    for x, y in loader:
        loss = criterion(other(x), y)
        with other.no_sync():
            loss.backward()
if args.again:
    net.load_state_dict(torch.load(path))
"""
    found = lint_text(SETUPS["distributed"] + options, select=("DDP205", "DDP415"))
    assert {one.code for one in found} == {"DDP205", "DDP415"}
