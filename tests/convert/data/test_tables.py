"""What a step fills from the samples of its batch: counters, sets, tables and means by label."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added

FILLED = {
    "a table": (
        "table = [[0] * 3 for _ in range(3)]\n"
        "for t, g in zip(b.tolist(), guess.tolist()):\n"
        "    table[t][g] += 1",
        "for t, g in zip(dd.gather(b.tolist()), dd.gather(guess.tolist())):",
    ),
    "a tensor": (
        "table = torch.zeros(3, 3)\nfor t, g in zip(b, guess):\n    table[t, g] += 1",
        "for t, g in zip(dd.gather(b), dd.gather(guess)):",
    ),
    "a dictionary": (
        "counts = {}\nfor t in b.tolist():\n    counts[t] = counts.get(t, 0) + 1",
        "for t in dd.gather(b.tolist()):",
    ),
    "a counter of collections": (
        "import collections\ncounts = collections.Counter()\nfor t in b:\n    counts[int(t)] += 1",
        "for t in dd.gather(b):",
    ),
    "lists by label": (
        "import collections\nkept = collections.defaultdict(list)\n"
        "for t, g in zip(b.tolist(), guess.tolist()):\n    kept[t].append(g)\nprint(kept)",
        "for t, g in zip(dd.gather(b.tolist()), dd.gather(guess.tolist())):",
    ),
    "a set": (
        "seen = set()\nfor t in b.tolist():\n    seen.add(t)",
        "for t in dd.gather(b.tolist()):",
    ),
    "a number of rounds": (
        "n = 0\nfor t in b.tolist():\n    n += 1",
        "for t in dd.gather(b.tolist()):",
    ),
    "a number of positions": (
        "n = 0\nfor i in range(len(b)):\n    n += 1",
        "for i in range(dd.global_batch_size(b)):",
    ),
    "rows at labels": (
        "seen = torch.zeros(3)\nseen[b] = 1",
        "seen[dd.gather(b)] = 1",
    ),
    "rows added at labels": (
        "sums = torch.zeros(3, 3)\nsums.index_add_(0, b, out)",
        "sums.index_add_(0, dd.gather(b), dd.gather(out))",
    ),
    "ones put at pairs of labels": (
        "table = torch.zeros(3, 3)\ntable.index_put_((b, guess), a[:, 0])",
        "table.index_put_((dd.gather(b), dd.gather(guess)), dd.gather(a[:, 0]))",
    ),
    "an array": (
        "import numpy as np\ntable = np.zeros((3, 3))\nnp.add.at(table, (b.numpy(), 0), 1)",
        "np.add.at(table, (dd.gather(b.numpy()), 0), 1)",
    ),
    "sums by class": (
        "sums = torch.zeros(3, 3)\nfor c in range(3):\n    sums[c] = out[b == c].sum(0)",
        "sums[c] = dd.sum(out[b == c].sum(0))",
    ),
}


def _with(lines: str) -> str:
    rows = "    out = brain(a)\n    guess = out.argmax(1)\n"
    filled = "".join(f"    {line}\n" for line in lines.splitlines())
    return HEAD + STEP.replace("    rule.zero_grad()\n", f"{rows}{filled}    rule.zero_grad()\n")


@pytest.mark.parametrize("name", FILLED)
def test_what_samples_fill_takes_those_of_all_ranks(tmp_path: Path, name: str) -> None:
    lines, expected = FILLED[name]
    assert expected in added(tmp_path, _with(lines))


OWN = {
    "a table of one sample": (
        "for t in b:\n    table = {}\n    table[t] = 1\n    n = 0\n    n += 1"
    ),
    "a table as long as the batch": (
        "hot = torch.zeros(len(b), 3)\nhot[torch.arange(len(b)), b] = 1"
    ),
    "a mask of the rows": "marked = torch.zeros_like(out)\nmarked[out > 0] = 1",
}


@pytest.mark.parametrize("name", OWN)
def test_what_each_sample_has_for_itself_stays(tmp_path: Path, name: str) -> None:
    assert added(tmp_path, _with(OWN[name])) == added(tmp_path, _with("pass"))


@pytest.mark.parametrize("grow", ["seen.extend(b.tolist())", "seen += b.tolist()"])
def test_a_list_that_rows_extend_has_those_of_all_ranks_where_it_is_read(
    tmp_path: Path, grow: str
) -> None:
    head = f"seen = []\n{grow}\n"
    counted = added(tmp_path, _with(head + "print(len(seen))"))
    assert any(line.startswith("print(dd.") for line in counted)
    shown = added(tmp_path, _with(head + "print(seen[:2])"))
    assert grow.replace("b.tolist()", "dd.gather(b.tolist())") in shown
    trained = _with(head + "out = out + torch.tensor(seen)[:, None]").replace(
        "brain(a), b", "out, b"
    )
    assert not any("gather" in line for line in added(tmp_path, trained))


def test_a_list_that_rows_extend_twice_gets_those_of_all_ranks(tmp_path: Path) -> None:
    lines = added(
        tmp_path, _with("seen = []\nseen.extend(b)\nseen.extend(guess)\nprint(len(seen))")
    )
    assert "seen.extend(dd.gather(b))" in lines
    assert "seen.extend(dd.gather(guess))" in lines


def test_sums_by_class_that_rows_pick_are_whole_before(tmp_path: Path) -> None:
    lines = added(
        tmp_path,
        _with("sums = torch.stack([out[b == c].sum(0) for c in range(3)])[b]\nprint(sums.mean())"),
    )
    assert "sums = dd.sum(torch.stack([out[b == c].sum(0) for c in range(3)]))[b]" in lines
