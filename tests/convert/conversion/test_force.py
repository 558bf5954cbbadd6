"""``--force``: what can be converted is, and the rest is marked where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.conftest import Ddpify
from tests.convert.examples import HEAD, STEP, convert_text

WRITE = "    rows[0] = 0.0"
WRITTEN = STEP.replace(
    "    penalty = F.cross_entropy(brain(a), b)\n",
    f"    rows = brain(a)\n{WRITE}\n    penalty = F.cross_entropy(rows, b)\n",
)
ENVIRONMENT = "import gym\n" + HEAD + "world = gym.make('CartPole-v1')\n"
FOREIGN = STEP.replace("F.cross_entropy(brain(a), b)", "brain.weight.sum()")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def forced(ddpify: Ddpify, text: str) -> tuple[int, list[str], str]:
    """Exit code, the lines written, and the report."""
    Path("train.py").write_text(text)
    done = ddpify("convert", "train.py", "-o", "out.py", "--force")
    written = Path("out.py").read_text() if Path("out.py").exists() else ""
    return done.code, written.splitlines(), done.stderr


def test_the_statement_that_is_refused_is_marked(ddpify: Ddpify) -> None:
    code, lines, report = forced(ddpify, HEAD + WRITTEN)
    assert code == 1
    marks = [number for number, line in enumerate(lines) if "# ddpify: not converted" in line]
    assert len(marks) == 1
    following = next(line for line in lines[marks[0] :] if not line.lstrip().startswith("#"))
    assert following == WRITE
    assert "dd.init()" in lines
    assert "brain = dd.wrap(nn.Linear(4, 3))" in lines
    assert "  train.py:14: not converted: a write into the row at one position reads" in report


def test_a_loss_that_is_not_followed_is_marked(ddpify: Ddpify) -> None:
    code, lines, _ = forced(ddpify, HEAD + FOREIGN)
    assert code == 1
    assert "brain = dd.wrap(nn.Linear(4, 3))" in lines
    assert any("# ddpify: not converted: the loss comes neither from" in line for line in lines)


def test_several_reasons_are_all_marked(ddpify: Ddpify) -> None:
    _, lines, report = forced(ddpify, ENVIRONMENT + WRITTEN)
    assert sum("# ddpify: not converted" in line for line in lines) == 2
    assert report.count("not converted: ") == 2


def test_what_is_converted_needs_no_force(ddpify: Ddpify) -> None:
    code, lines, _ = forced(ddpify, HEAD + STEP)
    ddpify("convert", "train.py", "-o", "plain.py")
    assert code == 0
    assert lines == Path("plain.py").read_text().splitlines()


@pytest.mark.parametrize(
    "text", ["print(1)\n", "import accelerate\n" + HEAD + STEP, "import ddpify.runtime\n" + HEAD]
)
def test_what_is_of_another_kind_is_refused_all_the_same(ddpify: Ddpify, text: str) -> None:
    code, lines, _ = forced(ddpify, text)
    assert code == 1
    assert lines == []


def test_a_project_is_marked_in_its_modules(ddpify: Ddpify) -> None:
    Path("project").mkdir()
    body = "".join(f"    {line}\n" for line in WRITTEN.splitlines())
    imports = "import torch.nn.functional as F\n\n\n"
    Path("project/engine.py").write_text(f"{imports}def run(brain, feed, rule):\n{body}")
    Path("project/train.py").write_text(f"import engine\n{HEAD}engine.run(brain, feed, rule)\n")
    done = ddpify("convert", "project", "-o", "out", "--entry", "train.py", "--force")
    assert done.code == 1
    written = Path("out/engine.py").read_text()
    assert "# ddpify: not converted" in written and "dd.mean(" in written


@pytest.mark.parametrize(
    "world",
    [
        "from gymnasium import make\nworld = make('CartPole-v1')\n",
        "from torchrl.envs.libs.gym import GymEnv\nworld = GymEnv('Pong-v4')\n",
        "from dm_control import suite\nworld = suite.load('cartpole', 'swingup')\n",
    ],
)
def test_environments_are_not_converted(world: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="learns from an environment"):
        convert_text(tmp_path, HEAD + world + STEP)
