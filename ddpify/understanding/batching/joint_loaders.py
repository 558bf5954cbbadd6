"""Loaders whose batches are used together, as by ``zip``: whether those are of one size.

The runtime weights means by the ranks' sizes of the batch that came last. With batches of two
sizes in one step, that holds for one of them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, zip_longest
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching import endless_samplers
from ddpify.understanding.batching.batch_sizes import setting, size_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    UNKNOWN,
    Const,
    Data,
    Instance,
    Tup,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.facts import Facts
    from ddpify.understanding.run_state import RunState

Pair = frozenset[Instance]
CUT = "a batch cut down to"


def sources(one: Value) -> frozenset[Instance]:
    """The loaders that the batches in a value come from."""
    held = (a for a in deep_atoms(one) if isinstance(a, Data) and a.placement.local)
    return frozenset(loader for data in held for loader in data.loaders)


def unequal(run: RunState, some: frozenset[Instance], others: frozenset[Instance]) -> bool:
    """Whether batches of these loaders are trained on together, and may differ in size."""
    pairs = run.choices.unequal
    if pairs and any(one.kind.startswith(CUT) for one in some & others):
        return False
    return bool(pairs) and any(frozenset((a.place, b.place)) in pairs for a in some for b in others)


def last(run: RunState, element: Value) -> frozenset[Instance]:
    """The loaders whose batch comes last where a loop gets several, if these may differ in size."""
    held = sources(element)
    if not unequal(run, held, held):
        return held
    parts = [item for atom in element.of(Tup) for item in atom.items if sources(item)]
    return last(run, parts[-1]) if parts else held


def taken_at_once(run: RunState, node: cst.CSTNode, element: Value) -> None:
    """A loop gets batches of several loaders in each round, in step with each other."""
    for pair in _side_by_side(element):
        run.facts.batches.in_step.add(pair)
        run.facts.batches.used_together.setdefault(pair, run.site(node))


def _side_by_side(element: Value) -> Iterator[Pair]:
    """The loaders of different parts of a tuple; one part may come from either of several."""
    for atom in element.atoms:
        if isinstance(atom, Tup):
            parts = [sources(item) for item in atom.items]
            for one, other in combinations(parts, 2):
                yield from (frozenset((a, b)) for a in one - other for b in other - one)
            for item in atom.items:
                yield from _side_by_side(item)


def are_one(parts: Sequence[Value]) -> bool:
    """Whether one loader, as far as is known, is several: a loop makes one in each round."""
    held = [sources(one) for one in parts]
    shared = {made for one, other in combinations(held, 2) for made in one & other}
    return any(_is_made_in_turn(made) and not _is_of_one_size(made) for made in shared)


def _is_of_one_size(made: Instance) -> bool:
    """Whether all loaders of one place have batches of one size, and as many samples."""
    data = made.arguments.get("dataset", UNKNOWN)
    return _batch_size(made).constant() is not ... and (
        len(data.atoms) == 1 or made.arguments.get("drop_last", UNKNOWN).constant() is True
    )


def _is_made_in_turn(made: Instance) -> bool:
    structure = made.module.structure
    around = structure.up(made.site)
    return bool(structure.loops(made.site)) or any(
        isinstance(one, (cst.BaseSimpleComp, cst.DictComp)) for one in around
    )


def taken_besides(run: RunState, node: cst.CSTNode, element: Value) -> None:
    """``next()`` gets a batch while loops in progress have others.

    Not beside one that may come from the same loader: that is another way to get the same batch.
    """
    new = sources(element)
    loops = [loop for frame in run.frames for loop in frame.loops]
    taken = [group for loop in loops for group in loop.loaders]
    alike = frozenset(loader for group in taken if group & new for loader in group) | new
    for other in {loader for group in taken for loader in group} - alike:
        for loader in new:
            run.facts.batches.used_together.setdefault(frozenset({loader, other}), run.site(node))
    if loops and new:
        loops[-1].loaders.append(new)


class Taken:
    """The batches of loops in progress, from the start of a branching on.

    Of those that one side takes and those that the other takes there is one at a time.
    """

    def __init__(self, run: RunState) -> None:
        loops = [loop for frame in run.frames for loop in frame.loops]
        self._known = [(loop, len(loop.loaders)) for loop in loops]
        self._first: list[list[frozenset[Instance]]] = [[] for _ in loops]

    def next_side(self) -> None:
        """The other side starts from what was there."""
        self._first = [loop.loaders[known:] for loop, known in self._known]
        for loop, known in self._known:
            del loop.loaders[known:]

    def join(self) -> None:
        """After both sides, each batch may be that of either."""
        for (loop, known), first in zip(self._known, self._first, strict=True):
            sides = zip_longest(first, loop.loaders[known:], fillvalue=frozenset[Instance]())
            loop.loaders[known:] = [one | other for one, other in sides]


def combine(run: RunState, one: Data, other: Data) -> None:
    """Rows meet rows, one by one: where they come from two loaders, it is noted."""
    rows = one.placement is other.placement is Placement.SHARD and one.dim == other.dim
    by_hand = all(source.role != "loader" for source in one.loaders | other.loaders)
    alone = len(one.loaders) == len(other.loaders) == 1
    if rows and (alone or by_hand) and one.loaders != other.loaders:
        run.facts.batches.combined.add(one.loaders | other.loaders)


def same_sizes(facts: Facts, pair: Pair) -> bool:
    """Whether batches of two loaders that are used together have as many samples as each other."""
    return pair in facts.batches.combined or equally_large(
        pair, in_step=pair in facts.batches.in_step
    )


def equally_large(pair: Pair, *, in_step: bool) -> bool:
    """Whether the batches of two loaders, or of one, surely have as many samples as each other."""
    one, other = (*pair, *pair)[:2]
    if any("batch_sampler" in loader.arguments for loader in pair):
        return False
    if not _same_batch_size(one, other):
        return False
    samplers = [loader.arguments.get("sampler", UNKNOWN) for loader in pair]
    dropping = [one.arguments.get("drop_last", UNKNOWN).constant() is True for one in pair]
    full = [
        drop or endless_samplers.never_ends(sampler)
        for drop, sampler in zip(dropping, samplers, strict=True)
    ]
    if all(full) or _batch_size(one).constant() == 1:
        return True
    data = [loader.arguments.get("dataset", UNKNOWN) for loader in pair]
    whole = not any("sampler" in loader.arguments for loader in pair)
    return in_step and whole and dropping[0] is dropping[1] and bool(data[0]) and data[0] == data[1]


def _same_batch_size(one: Instance, other: Instance) -> bool:
    if one is other:
        return True
    options = setting(_batch_size(one)), setting(_batch_size(other))
    if options[0] is not None and options[0] == options[1]:
        return True
    known = _batch_size(one).constant(), _batch_size(other).constant()
    if ... not in known:
        return known[0] == known[1]
    named = size_of(one), size_of(other)
    apart = one.site is not other.site  # else a parameter's name, of two calls
    return apart and named[0] is not None and named[0] == named[1] and one.module is other.module


def _batch_size(loader: Instance) -> Value:
    return loader.arguments.get("batch_size") or value(Const(1))
