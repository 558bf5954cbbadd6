"""The first collective that not all ranks take part in, and the line that led to it."""

from __future__ import annotations

from pathlib import Path

from ddpify.verify.compare import causes, matching
from ddpify.verify.compare.loops import left_loop
from ddpify.verify.compare.matching import Mismatch
from ddpify.verify.compare.records import Totals

REDUCE = "all_reduce", [1], "helper.py:3"


def record(*chains: tuple[str, ...]) -> Totals:
    return Totals(collectives=[REDUCE] * len(chains), chains=list(chains))


def test_a_helper_that_one_rank_calls_from_a_line_of_its_own() -> None:
    step, alone = ("helper.py:3", "train.py:20"), ("helper.py:3", "train.py:31")
    found = matching.first([record(step, alone, step), record(step, step)], ended=True)
    assert found is not None
    assert (found.number, found.line, found.cause) == (3, "train.py:31", causes.COLLECTIVE)
    others = record(step, step)
    others.collectives[1] = ("broadcast", [1], "train.py:20")
    found = matching.first([record(step, alone, step), others], ended=True)
    assert found is not None
    assert (found.number, found.line, found.cause) == (2, "train.py:31", causes.COLLECTIVE)
    assert found.difference().at == "train.py:31"


def test_a_surplus_call_of_a_helper() -> None:
    step, alone = ("helper.py:3", "train.py:20"), ("helper.py:3", "train.py:31")
    own, other = matching.surplus([record(step, alone), record(step)]), record(step)
    assert own is not None
    assert own.cause is causes.COLLECTIVE
    found = matching.surplus([record(step, step), other])
    assert found is not None
    assert found.cause is causes.CONTROL_FLOW


TRAIN = """
def main(rank):
    for epoch in range(2):
        for x in loader:
            step(x)
        if rank == 0:
            extra()
        evaluate()
"""


def test_a_rank_behind_a_loop_has_left_it_unless_a_condition_is_there(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)

    def at(mine: int, theirs: int) -> Mismatch:
        chains = (("lib.py:1", f"train.py:{mine}"), (f"train.py:{theirs}",))
        return Mismatch(1, 1, REDUCE, REDUCE, causes.COLLECTIVE, "", chains)

    assert left_loop(tmp_path, at(5, 8))
    assert left_loop(tmp_path, at(8, 5))
    assert not left_loop(tmp_path, at(5, 7))
    assert not left_loop(tmp_path, at(5, 5))
