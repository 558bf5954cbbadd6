"""What a script for one process asks about its launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning.conversion_options import Options
from ddpify.planning.refusals import Refusal
from ddpify.planning.solver import make_plan
from ddpify.source import read_source
from ddpify.understanding.project import Project
from tests.convert.examples import HEAD, STEP, added, convert_text

LAUNCH = {
    "group": ("alone = not dist.is_initialized()", "alone = True"),
    "group, with more": (
        "several = dist.is_available() and dist.is_initialized()",
        "several = False",
    ),
    "rank if there is a group": (
        "main = not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0",
        "main = True",
    ),
    "two variables": (
        "alone = 'RANK' not in os.environ or 'WORLD_SIZE' not in os.environ",
        "alone = True",
    ),
    "group or more": (
        "several = len(feed) > 1 and dist.is_initialized()",
        "several = len(feed) > 1 and False",
    ),
    "rank with a default": ("rank = int(os.environ.get('RANK', -1))", "rank = int(-1)"),
    "rank": ("rank = os.getenv('LOCAL_RANK')", "rank = None"),
    "variable": ("several = 'WORLD_SIZE' in os.environ", "several = False"),
    "no variable": ("alone = 'RANK' not in os.environ", "alone = True"),
    "another variable": ("home = os.environ.get('HOME', '.')", ""),
}


@pytest.mark.parametrize("name", LAUNCH)
def test_questions_about_the_launch_are_answered_as_in_one_process(
    tmp_path: Path, name: str
) -> None:
    code, expected = LAUNCH[name]
    head = HEAD.replace(
        "import torch\n", "import os\nimport torch\nimport torch.distributed as dist\n", 1
    )
    plain = added(tmp_path, head + STEP)
    lines = [line for line in added(tmp_path, head + code + "\n" + STEP) if line not in plain]
    assert lines == ([expected] if expected else [])


def test_what_is_done_with_a_group_alone_is_not_looked_at(tmp_path: Path) -> None:
    helper = (
        "def whole(x):\n    if not dist.is_initialized():\n        return x\n"
        "    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]\n"
        "    dist.all_gather(parts, x)\n    return torch.cat(parts)\n\n\n"
    )
    step = STEP.replace("brain(a), b", "whole(brain(a)), b")
    lines = added(
        tmp_path, HEAD.replace("\n", "\nimport torch.distributed as dist\n", 1) + helper + step
    )
    assert "penalty = dd.mean(F.cross_entropy(whole(brain(a)), b))" in lines
    assert not any("gather" in line for line in lines)


def test_a_file_that_stays_may_not_ask_for_the_group(tmp_path: Path) -> None:
    asks = (
        "import torch.distributed as dist\n\n\ndef alone():\n    return not dist.is_initialized()\n"
    )
    (tmp_path / "helpers.py").write_text(asks)
    text = HEAD.replace("\n", "\nfrom helpers import alone\n", 1) + STEP + "    print(alone())\n"
    with pytest.raises(Refusal, match=r"helpers.py:5: .*never where there is only one"):
        convert_text(tmp_path, text)


def test_a_question_about_the_group_asks_for_no_round_of_its_own(tmp_path: Path) -> None:
    steps = []
    for question in ("dist.is_initialized()", "dist.is_available()"):
        script = tmp_path / "train.py"
        script.write_text(f"import torch.distributed as dist\n{HEAD}alone = {question}\n{STEP}")
        project = Project(read_source(script))
        make_plan(project, Options())
        steps.append(project.budget.used)
    assert steps[0] == steps[1]
