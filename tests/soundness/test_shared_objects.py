"""Objects that a class or a cache gives again, what a metaclass sets, functions by any name."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_READ = "loss = loss + (out - One().m).pow(2).mean()"
_ONE = "One().m = out.detach().mean(0)"
GIVEN_AGAIN = [
    "class One:\n    it = None\n    def __new__(cls):\n        if cls.it is None:\n"
    f"            cls.it = super().__new__(cls)\n        return cls.it\n{_ONE}\n{_READ}",
    "class Meta(type):\n    known = {}\n    def __call__(cls):\n        if cls not in Meta.known:\n"
    "            Meta.known[cls] = super().__call__()\n        return Meta.known[cls]\n"
    f"class One(metaclass=Meta):\n    m = 0.0\n{_ONE}\n{_READ}",
    "class One:\n    shared = {}\n    def __init__(self):\n        self.__dict__ = One.shared\n"
    f"{_ONE}\n{_READ}",
    "@functools.lru_cache(None)\ndef held():\n    return {}\nheld()['m'] = out.detach().mean(0)\n"
    "loss = loss + (out - held()['m']).pow(2).mean()",
]
SET_BY_A_METACLASS = [
    "class Meta(type):\n    def __setattr__(cls, name, new):\n"
    "        super().__setattr__(name, new - new.mean(0))\nclass Box(metaclass=Meta):\n    pass\n"
    "Box.z = out\nloss = loss + Box.z.pow(2).mean()",
]
BY_ANY_NAME = [
    "object.__setattr__(model, 'act', getattr(torch, 'soft' + 'max'))\n"
    "loss = loss + model.act(out, 0).pow(2).mean()",
    "model.__dict__['act'] = getattr(torch, 'soft' + 'max')\n"
    "loss = loss + model.act(out, 0).pow(2).mean()",
    "vars(model)['act'] = getattr(torch.linalg, 'vector_' + 'norm')\n"
    "loss = loss + model.act(out, dim=0).pow(2).mean()",
]


@pytest.mark.parametrize("lines", [*GIVEN_AGAIN, *SET_BY_A_METACLASS, *BY_ANY_NAME])
def test_what_is_held_elsewhere_is_of_all_samples(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_a_function_by_any_name_that_a_forward_keeps(trial: Trial) -> None:
    lines = "self.act = getattr(torch, 'soft' + 'max')\nh = h + self.act(h, 0)"
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
