"""The first collective that not all ranks take part in, and the line that led to it."""

from __future__ import annotations

from ddpify.verify.compare import causes, matching
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
    assert matching.leftover([record(step, alone), record(step)]) is causes.COLLECTIVE
    assert matching.leftover([record(step, step), record(step)]) is causes.CONTROL_FLOW
