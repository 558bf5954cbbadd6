"""Functions that get the parts of ranks in one call, and in another what is whole already."""

from __future__ import annotations

from pathlib import Path

from tests.convert.examples import HEAD, STEP, added

HITS = """\
def hits(out, kinds):
    return (out.argmax(1) == kinds).sum().item()


"""


def test_what_is_evaluated_without_a_loader(tmp_path: Path) -> None:
    body = STEP + "    print(hits(brain(a), b))\nfor i in range(5):\n"
    body += "    print(hits(brain(features[i : i + 1]), labels[i : i + 1]))\n"
    lines = added(tmp_path, HITS + HEAD + body)
    assert "print(hits(dd.gather(brain(a)), dd.gather(b)))" in lines
    assert not any("dd.sum" in line for line in lines)


DISTANCES = """\
def distances(rows):
    square = rows.pow(2).sum(1)
    return square.unsqueeze(1) + square.unsqueeze(0) - 2 * rows @ rows.t()


def of_unit_length(rows):
    unit = F.normalize(rows)
    return distances(unit)


"""


def test_what_another_loss_has_gathered_is_not_gathered_again(tmp_path: Path) -> None:
    body = "    out = brain(a)\n    penalty = (of_unit_length(out) + distances(out)).mean()\n"
    plain = "    penalty = F.cross_entropy(brain(a), b)\n"
    check = "for a, b in check:\n    print(of_unit_length(brain(a)).max())\n"
    lines = added(tmp_path, DISTANCES + HEAD + STEP.replace(plain, body) + check)
    assert "out = dd.gather(brain(a))" in lines
    assert not any("F.normalize" in line or "square" in line for line in lines)
