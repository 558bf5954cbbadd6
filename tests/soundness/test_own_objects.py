"""Operators of the project's own objects, and what such objects and functions keep."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_HELD = "class Held:\n    def __init__(self, v):\n        self.v = v\n"
_KEPT = "0.1 * v.detach().mean(0)\n"
COMPUTING = [
    f"{_HELD}    def __mul__(self, other):\n        return self.v.std() * other\n"
    "    __rmul__ = __mul__\n    def __rsub__(self, o):\n        return o - self.v.mean(0)\n"
    "    def __neg__(self):\n        return -self.v.amax(0)\n"
    "    def __invert__(self):\n        return self.v.flip(0)\n"
    "held = Held(out)\nloss = loss + held * 2 + (out - held).pow(2).mean()\n"
    "loss = loss + F.mse_loss(~held, targets) + (-held).sum()",
    f"{_HELD}    def __iadd__(self, other):\n        self.v = self.v + other.mean(0)\n"
    "        return self\n    def __setitem__(self, i, o):\n        self.v = self.v + o[0]\n"
    "    def __abs__(self):\n        return self.v.abs().max()\n"
    "held = Held(out)\nheld += targets\nheld[0] = targets\n"
    "loss = F.mse_loss(held.v, targets) + abs(held)",
]
TELLING = [
    f"{_HELD}    def __len__(self):\n        return len(self.v)\n"
    "    def __getitem__(self, i):\n        return self.v[i]\n"
    "held = Held(out)\nloss = loss * len(held) + (held[0] - held[len(held) - 1]).pow(2).sum()",
    f"{_HELD}    def __lt__(self, other):\n        return self.v.mean() < other.v.mean()\n"
    "    def __contains__(self, i):\n        return bool((self.v > i).any())\n"
    "    def __float__(self):\n        return float(self.v.mean())\n"
    "held = Held(out)\nloss = loss * (2 if held < Held(targets) else 1)\n"
    "loss = loss * (1 + (1.5 in Held(targets))) * (1 + float(held))",
    f"{_HELD}    def __str__(self):\n        return f'{{self.v.mean():.6f}}'\n"
    "    def __bool__(self):\n        return bool((self.v > 0).sum() > 9)\n"
    "held = Held(out)\nprint(held, str(Held(targets)), f'{held}')\n"
    "if held:\n    loss = loss * 2\nloss = loss * (3 if not Held(targets) else 1)",
]
BY_THEIR_CLASS = [
    "class Centred:\n    def __set__(self, owner, v):\n        owner.kept = v - v.mean(0)\n"
    "    def __get__(self, owner, kind):\n        return owner.kept\n"
    "class Box:\n    v = Centred()\n    @property\n    def w(self):\n        return self._w\n"
    "    @w.setter\n    def w(self, v):\n        self._w = v - v.amax(0)\n"
    "box = Box()\nbox.v, box.w = out, out\nloss = loss + (box.v * box.w * targets).mean()",
    "class Box:\n    def __setattr__(self, name, v):\n"
    "        object.__setattr__(self, name, v - v.mean(0))\n"
    "class Spread:\n    def __new__(cls, v):\n        return v.std()\n"
    "box = Box()\nbox.v = out\nloss = F.mse_loss(box.v, targets) + Spread(out)\n"
    "loss = loss + getattr(out, ''.join(['st', 'd']))()",
]
ACCESSORS = [
    f"{_HELD}    def get(self):\n        return self.v - self.v.mean(0)\n"
    "    def put(self, v):\n        self.v = v - v.amax(0)\n"
    "    centred = property(get, put)\n    twice = lambda self, o: o - self.v.mean(0)\n"
    "    by_class = classmethod(lambda cls, v: v.std())\n"
    "    alone = staticmethod(lambda v: v.amax(0).sum())\n"
    "Held.s = property(lambda self: self.v.std())\n"
    "held = Held(out)\nloss = loss + held.s + held.centred.pow(2).mean()\nheld.centred = out\n"
    "loss = loss + held.v.pow(2).mean() + held.twice(out).pow(2).mean()\n"
    "loss = loss + Held.by_class(out) + Held.alone(out) + held.alone(targets)",
]
CLASSES_THEMSELVES = [
    "class Base:\n    def __class_getitem__(cls, v):\n        return v - v.mean(0)\n"
    "    def __init_subclass__(cls, v=None, **others):\n        cls.s = v - v.mean(0)\n"
    "class Derived(Base, v=out):\n    pass\n"
    "loss = loss + Derived.s.pow(2).mean() + (Base[out] * targets).pow(2).mean()",
    "class Kind(type):\n    def __call__(cls, v):\n        return v.std()\n"
    "    def __getitem__(cls, v):\n        return v - v.mean(0)\n"
    "    def __mul__(cls, v):\n        return v - v.amax(0)\n"
    "    @property\n    def s(cls):\n        return cls.v.std()\n"
    "    def centred(cls, v):\n        return v - v.amin(0)\n"
    "class Box(metaclass=Kind):\n    v = None\nclass Other(Box):\n    pass\n"
    "Box.v = out\nloss = loss + Box.s + Other(out) + Box[out].pow(2).mean()\n"
    "loss = loss + (Box * out).pow(2).mean() + Box.centred(out).pow(2).mean()",
]
MADE_OTHERWISE = [
    "class Kind(type):\n    def __new__(mcs, name, bases, body):\n"
    "        body['centred'] = staticmethod(lambda v: v - v.mean(0))\n"
    "        return super().__new__(mcs, name, bases, body)\n"
    "    def __init__(cls, name, bases, body):\n        super().__init__(name, bases, body)\n"
    "        cls.spread = lambda self, v: v.std()\n"
    "    def __getattr__(cls, name):\n        return cls.v.amax()\n"
    "class Box(metaclass=Kind):\n    v = None\n"
    "Box.v = out\nloss = loss + Box.centred(out).pow(2).mean() + Box().spread(out) + Box.most",
    "Box = type('Box', (), {'f': lambda self, v: v - v.mean(0), 'n': len(out)})\n"
    "loss = loss * Box.n + Box().f(out).pow(2).mean()",
    "Box = type('Box', (nn.Module,), {'forward': lambda self, v: v.softmax(0)})\n"
    "loss = F.mse_loss(Box()(out), targets)",
]
KEEPING = [
    f"def mean(v, state=kept):\n    state['m'] = 0.9 * state.get('m', 0) + {_KEPT}"
    "    return state['m']\nloss = loss + (out - mean(out)).pow(2).mean()",
    f"def mean(v, state=kept):\n    state.update(m=0.9 * state.get('m', 0) + {_KEPT[:-1]})\n"
    "    return sum(state.values())\nloss = loss + (out - mean(out)).pow(2).mean()",
]
DEFAULTS = [
    f"def mean(v, state={{}}):\n    state['m'] = 0.9 * state.get('m', 0) + {_KEPT}"
    "    return state['m']\n",
    "def mean(v, state=[]):\n    state.append(v.detach())\n    return torch.cat(state).mean(0)\n",
    f"def mean(v):\n    mean.m = 0.9 * getattr(mean, 'm', 0) + {_KEPT}    return mean.m\n",
]


ALL = [*COMPUTING, *TELLING, *BY_THEIR_CLASS, *ACCESSORS, *CLASSES_THEMSELVES, *MADE_OTHERWISE]


def _outcome(trial: Trial, text: str) -> None:
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", ALL)
def test_python_runs_the_methods_of_the_projects_objects(trial: Trial, lines: str) -> None:
    _outcome(trial, script("loop", lines))


@pytest.mark.parametrize("lines", KEEPING)
def test_a_dictionary_keeps_what_all_ranks_have(trial: Trial, lines: str) -> None:
    _outcome(trial, script("loop", lines).replace("for epoch", "kept = {}\nfor epoch", 1))


@pytest.mark.parametrize("function", DEFAULTS)
def test_a_function_keeps_what_all_ranks_have(trial: Trial, function: str) -> None:
    text = script("loop", "loss = loss + (out - mean(out)).pow(2).mean()")
    _outcome(trial, text.replace("for epoch", f"{function}for epoch", 1))
