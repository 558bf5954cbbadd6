"""Samplers of the project, by their code: whether the rank comes into what they give, and how."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import is_distributed_sampler, splits
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK
from ddpify.understanding.values import Class, Instance

# Their own order is empty: what is given comes out of the code of the class alone.
_PLAIN = (
    "torch.utils.data.Sampler", "torch.utils.data.sampler.Sampler",
    "torch.utils.data.BatchSampler", "torch.utils.data.sampler.BatchSampler",
    "typing.Generic", "builtins.object",
)  # fmt: skip
_SEEDING = frozenset({"manual_seed", "seed", "Random", "default_rng", "RandomState"})
_GENERATORS = frozenset({"Generator", "Random", "default_rng", "RandomState"})


def order_of(sampler: Instance) -> cst.FunctionDef | None:
    """The ``__iter__`` of a sampler that is all code of the project, if it stands in its class."""
    if not isinstance(sampler.type, Class) or {*sampler.type.library_bases()} - {*_PLAIN}:
        return None
    for one in sampler.type.node.body.body:
        if isinstance(one, cst.FunctionDef) and one.name.value == "__iter__":
            return one
    return None


def is_told_the_epoch(sampler: Instance) -> bool:
    """Whether a sampler keeps what ``set_epoch()`` is told, and gives an order by it."""
    if order_of(sampler) is None or not isinstance(sampler.type, Class):
        return False
    methods = [one for one in sampler.type.node.body.body if isinstance(one, cst.FunctionDef)]
    kept = {name for one in methods if one.name.value == "set_epoch" for name in _set_in(one)}
    others = (one for one in methods if one.name.value not in ("__init__", "set_epoch"))
    return any(
        isinstance(one, cst.Attribute) and one.attr.value in kept
        for method in others
        for one in walk(method.body)
    )


def orders_by_base(sampler: Instance) -> bool:
    """Whether a class that derives from a DistributedSampler gives an order by the epoch that this
    one is told: it asks for it, or for the order of the base.
    """
    if not isinstance(sampler.type, Class) or not is_distributed_sampler(sampler):
        return False
    orders = (
        one.body
        for one in sampler.type.node.body.body
        if isinstance(one, cst.FunctionDef) and one.name.value != "__init__"
    )
    return any(
        isinstance(one, cst.Attribute) and one.attr.value in ("epoch", "__iter__")
        for order in orders
        for one in walk(order)
    )


def gives_all_ranks_the_same(script: Script, sampler: Instance) -> bool:
    """Whether a sampler has its rank, and asks for it nowhere where it gives its order."""
    order = order_of(sampler)
    return order is not None and not any(
        bool(script.labels(one) & ANY_RANK) or _may_know_it(script, sampler, one)
        for one in script.reached(order)
        if isinstance(one, (cst.Name, cst.Attribute, cst.Call)) and one in script.owners
    )


def draws_by_itself(script: Script, sampler: Instance) -> bool:
    """Whether a sampler draws from a generator of its own: no other seed changes its order."""
    order = order_of(sampler)
    return order is not None and any(
        isinstance(one, cst.Call) and _last_name(one.func) in _GENERATORS
        for one in script.reached(order)
    )


def seeds_by_rank(script: Script, sampler: Instance) -> Iterator[cst.BaseExpression]:
    """The seeds of a rank's own by which a sampler puts all samples in order, of which the rank
    takes its part after that.
    """
    order = order_of(sampler)
    for call in walk(order.body) if order is not None else ():
        if not isinstance(call, cst.Call) or _last_name(call.func) not in _SEEDING:
            continue
        own = [one.value for one in call.args if script.labels(one.value) & (ANY_RANK | {CLOCK})]
        if own and order is not None and _takes_its_part_after(script, order, call):
            yield own[0]


def _takes_its_part_after(script: Script, order: cst.FunctionDef, seed: cst.Call) -> bool:
    """``indices[rank::ranks]``, below a seed."""
    places = script.structure_of(seed).order
    slices = [one for one in walk(order.body) if isinstance(one, cst.Slice)]
    by_rank = [
        one
        for one in slices
        if one.lower is not None and one.step is not None and script.labels(one.lower) & ANY_RANK
    ]
    return bool(by_rank) and all(places[one] > places[seed] for one in by_rank)


def _may_know_it(script: Script, sampler: Instance, node: cst.BaseExpression) -> bool:
    """Whether something splits by itself, or is the order of a base that is not seen."""
    if isinstance(node, cst.Call) and _last_name(node.func) == "super":
        return True
    return any(splits(one) and one.type is not sampler.type for one in script.instances(node))


def _set_in(method: cst.FunctionDef) -> Iterator[str]:
    for one in walk(method.body):
        if isinstance(one, cst.AssignTarget) and isinstance(one.target, cst.Attribute):
            yield one.target.attr.value


def _last_name(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""
