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
