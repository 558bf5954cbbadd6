"""Cases of the benchmark of ports by hand that show a class of pitfall each."""

from __future__ import annotations

import pytest

from benchmarks.by_hand.cases import CASES
from benchmarks.by_hand_bugs import RIGHT, judged, planted, said
from ddpify.verify import What
from ddpify.verify.launch.launcher import Worker

NAMES = {
    "accumulate": ["an unused head", "average on rank 0 alone"],
    "masked": ["the validation leaves the model in evaluation mode"],
    "sampled": ["the batch is divided twice", "zero_grad after backward"],
    "batchnorm": [
        "right: written for the CPU",
        "noise drawn after the slice, equal on all ranks",
    ],
}


@pytest.mark.parametrize(("port", "name"), [(p, name) for p in NAMES for name in NAMES[p]])
def test_case(port: str, name: str, worker: Worker) -> None:
    case = next(case for case in CASES[port] if case.name == name)
    verdict = planted(port, case, worker)
    assert judged(case, verdict, frozenset(CASES[port][0].allowed))[-1] in RIGHT, said(verdict)


def test_buffers_are_compared_after_each_step(worker: Worker) -> None:
    """What is saved in the end would show it, too, but not when it began."""
    name = "another momentum of BatchNorm"
    case = next(case for case in CASES["batchnorm"] if case.name == name)
    verdict = planted("batchnorm", case, worker)
    found = verdict.comparisons[0].differences[0]
    assert (found.what, found.step) == (What.BUFFER, 1)
    assert judged(case, verdict)[-1] in RIGHT, said(verdict)
