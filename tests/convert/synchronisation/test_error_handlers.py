"""Errors of one rank, which a script handles and goes on after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, added, convert_text
from tests.training_runs import TrainingRuns, assert_same_training

LOOP = """\
def step(a, b):
    penalty = F.cross_entropy(brain(a), b)
    penalty.backward()


for i, (a, b) in enumerate(feed):
    rule.zero_grad()
    try:
        step(a, b)
    HANDLER
    rule.step()
"""
SKIPS = """\
except RuntimeError as error:
        if "memory" in str(error):
            continue
        raise"""


def script(handler: str) -> str:
    """A training with a handler of the errors of its steps."""
    return HEAD + LOOP.replace("HANDLER", handler)


@pytest.mark.parametrize(
    "handler",
    [
        SKIPS,
        "except torch.cuda.OutOfMemoryError:\n        continue",
        "except (ValueError, Exception):\n        pass",
        "except:\n        break",
        "except Exception:\n        torch.save(brain.state_dict(), 'now.pt')\n        raise",
        "finally:\n        torch.save(brain.state_dict(), 'now.pt')",
    ],
)
def test_an_error_of_one_rank_ends_the_run(tmp_path: Path, handler: str) -> None:
    assert "dd.reraise()" in added(tmp_path, script(handler))


@pytest.mark.parametrize(
    "handler",
    [
        "except StopIteration:\n        break",
        "except KeyboardInterrupt:\n        break",
        "except Enough:\n        break",
        "except Exception as error:\n        print(error)\n        raise",
        "finally:\n        print(i)",
    ],
)
def test_what_all_ranks_come_to_stays(tmp_path: Path, handler: str) -> None:
    text = "class Enough(Exception):\n    pass\n\n\n" + script(handler)
    assert "dd.reraise()" not in added(tmp_path, text)


def test_handlers_of_other_work_stay(tmp_path: Path) -> None:
    text = "try:\n    import fast\nexcept Exception:\n    fast = None\n" + script(SKIPS)
    assert added(tmp_path, text).count("dd.reraise()") == 1


FAILS = """\
if i == 1 and (dd.rank() if dd.world_size() > 1 else 1) == 1:
            raise RuntimeError("out of memory")
        step(a, b)"""


@pytest.mark.parametrize("handler", [SKIPS, "finally:\n        torch.save(brain, 'now.pt')"])
def test_a_rank_that_fails_ends_all(tmp_path: Path, runs: TrainingRuns, handler: str) -> None:
    conversion = convert_text(tmp_path, script(handler))
    converted = tmp_path / "converted.py"
    failing = conversion.data.decode().replace("    step(a, b)", f"    {FAILS}", 1)
    converted.write_text(failing)
    failed = runs.run(converted, 2, deadline=60.0)
    assert all(rank.status not in (0, None) for rank in failed.ranks)
    assert "[rank 1] RuntimeError: out of memory" in failed.ranks[1].stderr


def test_exceptions_of_the_script_pass(tmp_path: Path, runs: TrainingRuns) -> None:
    handler = "except Exception as error:\n        print(type(error).__name__)\n        continue"
    text = "class Enough(Exception):\n    pass\n\n\n" + script(handler)
    text = text.replace("    step(a, b)", "    if i == 1: raise Enough\n        step(a, b)", 1)
    text = "import torch\ntorch.manual_seed(1)\ntorch.set_default_dtype(torch.float64)\n" + text
    conversion = convert_text(tmp_path, text)
    assert b"dd.reraise()" in conversion.data
    converted = tmp_path / "converted.py"
    converted.write_bytes(conversion.data)
    assert_same_training(runs.run(tmp_path / "script.py"), runs.run(converted, 2))
