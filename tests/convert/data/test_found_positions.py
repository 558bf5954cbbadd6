"""Positions at which a mask holds: those among the rows of all ranks, once they are read."""

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added

FOUND = {
    "printed": (
        "    print((b == 1).nonzero())\n",
        ["print(dd.gather(b == 1).nonzero())"],
    ),
    "one of them picks a row": (
        "    first = (b == 1).nonzero()[0]\n    print(a[first].sum())\n",
        ["first = dd.gather(b == 1).nonzero()[0]", "print(dd.gather(a)[first].sum())"],
    ),
    "in a tuple": (
        "    rows, = torch.where(b == 1)\n    print(rows.tolist())\n",
        ["rows, = torch.where(dd.gather(b == 1))"],
    ),
    "added up": (
        "    print(torch.argwhere(b == 1)[:, 0].sum())\n",
        ["print(torch.argwhere(dd.gather(b == 1))[:, 0].sum())"],
    ),
    "of another dimension": (
        "    print((a > 0).nonzero()[:, 1].sum())\n",
        ["print(dd.sum((a > 0).nonzero()[:, 1].sum()))"],
    ),
    "for rows of what is whole": (
        "    print(features[(b == 1).nonzero()].mean())\n",
        ["print(features[dd.gather(b == 1).nonzero()].mean())"],
    ),
    "for rows of what is whole, by a function": (
        "    print(features.index_select(0, torch.where(b == 1)[0]).mean())\n",
        ["print(features.index_select(0, torch.where(dd.gather(b == 1))[0]).mean())"],
    ),
    "only to pick rows": (
        "    print(len(b[(b == 1).nonzero()]))\n",
        ["print(dd.sum(len(b[(b == 1).nonzero()])))"],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_positions_of_a_mask_that_are_read_are_found_in_that_of_all_ranks(
    tmp_path: Path, name: str
) -> None:
    lines, expected = FOUND[name]
    kept = [line for line in added(tmp_path, HEAD + STEP + lines) if line in expected]
    assert kept == expected


FILLED = {
    "in the loop": "    shown = torch.zeros(3, 4)\n    for i in (0, 2):\n        shown[i] = a[i]\n",
    "behind the loop": "shown = torch.zeros(3, 4)\nfor i in range(3):\n    shown[i] = a[i]\n",
    "an array": "import numpy as np\nshown = np.zeros((3, 4))\nshown[:3] = a[:3].numpy()\n",
}


@pytest.mark.parametrize("name", FILLED)
def test_samples_that_a_whole_tensor_takes_are_those_of_the_whole_batch(
    tmp_path: Path, name: str
) -> None:
    lines = added(tmp_path, HEAD + STEP + FILLED[name])
    assert any(line.startswith("shown[") and "= dd.gather(a)[" in line for line in lines)


def test_a_tensor_of_a_ranks_rows_takes_its_own(tmp_path: Path) -> None:
    filled = "    shown = torch.zeros(len(a), 4)\n    for i in range(len(a)):\n"
    lines = added(tmp_path, HEAD + STEP + filled + "        shown[i] = a[i]\n")
    assert not any("gather" in line for line in lines)
