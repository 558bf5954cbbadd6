"""Random generators that start from the machine's entropy or clock: each process draws its own."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.facts import Facts, Site
from ddpify.understanding.libraries.clocks import is_clock
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.structure import walk
from ddpify.understanding.values import UNKNOWN

_GENERATORS = (
    "numpy.random.default_rng",
    "numpy.random.RandomState",
    "numpy.random.SeedSequence",
    "random.Random",
)
SEEDS = ("torch.manual_seed", "numpy.random.seed", "random.seed")
SEEDED = (*_GENERATORS, *SEEDS)
# Methods that run for single samples, or in the processes of a loader.
EACH_ON_ITS_OWN = (
    "__getitem__", "__iter__", "__len__", "__call__", "forward", "collate_fn", "worker_init_fn",
)  # fmt: skip
_FRESH = ("torch.seed", "torch.cuda.seed", "random.SystemRandom")


def own_draws(facts: Facts) -> Iterator[Site]:
    """The calls that make or seed a generator so that no two processes draw the same."""
    for name in (*SEEDED, *_FRESH):
        for site in facts.library_calls.get(name, {}).values():
            if isinstance(site.node, cst.Call) and starts_anew(facts, name, site.node):
                yield site


def starts_anew(facts: Facts, name: str, call: cst.Call) -> bool:
    """Whether a call of a library function starts a generator from entropy or the clock."""
    if name in _FRESH:
        return True
    if name not in SEEDED:
        return False
    given = [facts.values.get(one.value, UNKNOWN).constant() for one in call.args]
    if not given or given == [None]:
        return True
    return any(
        is_clock(library)
        for argument in call.args
        for node in walk(argument.value)
        if isinstance(node, cst.Call)
        for library in library_names(facts.values.get(node.func))
    )
