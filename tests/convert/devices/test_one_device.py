"""Scripts that spread batches over several GPUs of one process only where they see several."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.convert.examples import HEAD, STEP, convert_text

SPREAD = """\
def spread(brain, *given):
    places = list(range(torch.cuda.device_count()))
    copies = torch.nn.parallel.replicate(brain, places)
    parts = torch.nn.parallel.scatter(given, places)
    return torch.nn.parallel.gather(torch.nn.parallel.parallel_apply(copies, parts), 0)

"""
SEVERAL = "torch.cuda.device_count() > 1"
ORDINARY = "    out = brain(a)\n"


def _script(branches: str) -> str:
    """A loop in which the branches make ``out``."""
    loop = STEP.replace("F.cross_entropy(brain(a), b)", "F.cross_entropy(out, b)")
    first, rest = loop.split("\n", 1)
    inner = "".join(f"    {line}\n" for line in branches.splitlines())
    return f"{HEAD}{SPREAD}{first}\n{inner}{rest}"


def _loop(tmp_path: Path, branches: str) -> str:
    """What becomes of the branches."""
    done = convert_text(tmp_path, _script(branches)).data.decode()
    return done[done.index("for a, b in feed") :]


@pytest.mark.parametrize(
    "test",
    [
        SEVERAL,
        "1 < torch.cuda.device_count()",
        "torch.cuda.device_count() >= 2",
        "torch.cuda.is_available() and torch.cuda.device_count() != 0 and " + SEVERAL,
        "not torch.cuda.device_count() <= 1",
        f"features.is_cuda and {SEVERAL}",
        f"{SEVERAL} or torch.cuda.device_count() == 4",
    ],
)
def test_the_other_branch_stays(tmp_path: Path, test: str) -> None:
    after = _loop(tmp_path, f"if {test}:\n    out = spread(brain, a)\nelse:\n{ORDINARY}")
    assert "    out = brain(a)\n" in after.splitlines(keepends=True)
    assert "device_count" not in after and "else" not in after


@pytest.mark.parametrize(
    ("branches", "left"),
    [
        (
            f"if torch.cuda.device_count() < 2:\n{ORDINARY}else:\n    out = spread(brain, a)\n",
            "    out = brain(a)\n",
        ),
        (
            f"out = brain(a)\n# Many.\nif {SEVERAL}:\n    out = spread(brain, a)\n",
            "    out = brain(a)\n",
        ),
        (f"out = (spread(brain, a) if {SEVERAL} else brain(a))\n", "    out = (brain(a))\n"),
        (
            f"# Rows.\nif {SEVERAL}:\n    out = spread(brain, a)\nelse:  # One.\n{ORDINARY}",
            "    # Rows.\n    out = brain(a)\n",
        ),
        (f"if {SEVERAL}: out = spread(brain, a)\nelse: out = brain(a)\n", "    out = brain(a)\n"),
        (
            f"if {SEVERAL}:\n    out = spread(brain, a)\n"
            "elif len(features) > 7:\n    out = brain(a)\nelse:\n    out = brain(a) * 2\n",
            "    if len(features) > 7:\n        out = brain(a)\n"
            "    else:\n        out = brain(a) * 2\n",
        ),
        (
            "if len(features) > 700:\n    out = brain(a) * 2\n"
            f"elif {SEVERAL}:\n    out = spread(brain, a)\nelse:\n{ORDINARY}",
            "    if len(features) > 700:\n        out = brain(a) * 2\n"
            "    else:\n        out = brain(a)\n",
        ),
        (
            "if len(features) > 700:\n    out = brain(a) * 2\n"
            f"elif not {SEVERAL}:\n{ORDINARY}else:\n    out = spread(brain, a)\n",
            "    if len(features) > 700:\n        out = brain(a) * 2\n"
            "    else:\n        out = brain(a)\n",
        ),
        (
            "if torch.cuda.device_count() > 2:\n    out = spread(brain, a)\n"
            f"elif {SEVERAL}:\n    out = spread(brain, a.clone())\nelse:\n{ORDINARY}",
            "    out = brain(a)\n",
        ),
    ],
)
def test_what_is_left_of_the_branches(tmp_path: Path, branches: str, left: str) -> None:
    after = _loop(tmp_path, branches)
    _, rest = after.split("\n", 1)
    assert rest.startswith(left + "    rule.zero_grad()")


def test_a_function_in_between(tmp_path: Path) -> None:
    text = _script(f"if {SEVERAL}:\n    out = outer(a)\nelse:\n{ORDINARY}")
    outer = "def outer(rows):\n    return spread(brain, rows)\n\n"
    after = convert_text(tmp_path, text.replace(SPREAD, SPREAD + outer)).data.decode()
    assert "    out = brain(a)\n" in after and "outer(a)" not in after


@pytest.mark.parametrize(
    "branches",
    [
        "out = spread(brain, a)\n",
        f"if {SEVERAL}:\n    out = spread(brain, a)\nelse:\n    out = spread(brain, a)\n",
        # One GPU takes it, and without any GPU it is taken, or may be.
        f"if torch.cuda.device_count() > 0:\n    out = spread(brain, a)\nelse:\n{ORDINARY}",
        f"if torch.cuda.device_count() != 1:\n    out = spread(brain, a)\nelse:\n{ORDINARY}",
        f"if {SEVERAL} or len(a) > 3:\n    out = spread(brain, a)\nelse:\n{ORDINARY}",
        # What it asks besides is done, too.
        f"if features.add_(1) is None or {SEVERAL}:\n    out = spread(brain, a)\nelse:\n{ORDINARY}",
    ],
)
def test_what_one_gpu_may_reach_is_refused(tmp_path: Path, branches: str) -> None:
    with pytest.raises(Refusal, match="spreads a batch over the GPUs of one process"):
        convert_text(tmp_path, _script(branches))
