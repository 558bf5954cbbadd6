"""Comparison of checkpoints, without running anything."""

from __future__ import annotations

from pathlib import Path

from ddpify.verify import Comparison, Kind
from ddpify.verify.compare import outputs
from ddpify.verify.compare.records import Totals

NAME = "model_1.pt"


def record(bias: float) -> Totals:
    tree = {"weight": [[4], 2.0, 1.0], "bias": [[2], bias, bias]}
    return Totals(saves={NAME: tree}, written={NAME})


def test_a_tensor_may_differ_as_rounding_lets_it() -> None:
    own, other = (Path(), {NAME}, record(2.0e-8)), (Path(), {NAME}, [record(1.8e-8), Totals()])
    assert [found.name for found in outputs.compare(own, other)] == [NAME]
    assert not outputs.compare(own, other, noisy=(Path(), {NAME}, record(2.1e-8)))
    assert outputs.compare(own, other, noisy=(Path(), {NAME}, record(2.0e-8 + 1e-11)))


def test_files_of_one_name_are_told_apart() -> None:
    names = {"one/model.pt", "two/model.pt"}
    ranks = [Totals(written=names), Totals(written=names)]
    found = outputs.compare((Path(), names, Totals(written=names)), (Path(), names, ranks))
    assert [item.text for item in found] == [
        f"{name} is written by 2 ranks" for name in sorted(names)
    ]
    comparison = Comparison(2, Kind.NOT_EQUIVALENT, differences=[found[0], found[0], found[1]])
    assert comparison.leading == found[:1]
    assert comparison.following == found
