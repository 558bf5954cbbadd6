"""Values that a snapshot can hold as they are: numbers, text, tensors, and containers of such."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.planning.resumed_loops import CONTAINERS
from ddpify.understanding.values import Const, Data, Instance, Number, Tup, Value, deep_atoms

_DRAWN = tuple(f"random.{name}" for name in (
    "random", "uniform", "triangular", "randint", "randrange", "getrandbits", "randbytes", "gauss",
    "normalvariate", "lognormvariate", "betavariate", "expovariate", "gammavariate",
    "paretovariate", "vonmisesvariate", "weibullvariate", "binomialvariate"))  # fmt: skip
_CHOOSING = ("random.choice", "random.choices", "random.sample")


def is_plain(plan: Plan, value: Value) -> bool:
    """Whether a value may be a number, text, a tensor, or a container of such."""
    for atom in deep_atoms(value):
        if isinstance(atom, Instance):
            if atom.type in _CHOOSING:
                if not all(is_plain(plan, one) for one in _arguments(plan, atom)):
                    return False
            elif not isinstance(atom.type, str) or atom.type not in (*CONTAINERS, *_DRAWN):
                return False
        elif not isinstance(atom, (Const, Number, Data, Tup)):
            return False
    return True


def _arguments(plan: Plan, drawn: Instance) -> Iterator[Value]:
    """What a call chooses from."""
    call = drawn.site
    for arg in call.args if isinstance(call, cst.Call) else ():
        yield plan.facts.values.get(arg.value, Value())
