"""Functions that ``torch.vmap`` makes of a function of one sample, or along another dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.arithmetic import across_samples, lifted_rows, tensor_pairs
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries import opaque
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import NO_ROWS, UNKNOWN, Data, Instance, Tup, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

TYPE = "torch.func.vmap"


def made(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """What ``torch.vmap`` gives: an object that keeps the function and the dimensions."""
    held = run.instance(node, run.module, TYPE)
    for name, given in zip(("func", "in_dims", "out_dims"), args, strict=False):
        held.arguments[name] = given
    held.arguments.update(kwargs)
    return value(held)


def call(run: RunState, node: cst.BaseExpression, made_of: Instance, args: list[Value]) -> Value:
    """What it makes of rows: each sample's own, or what all of them make together."""
    operands = argument_pairs(node, args, {})
    rows = [(shown, held) for shown, held in operands if any(map(_is_rows, held.data))]
    if not rows:
        return opaque.opaque(run, node, None, args, {})
    of_all = lifted_rows.asked(run, "vmap", [data for one in args for data in one.data])
    if of_all is not None:
        return of_all
    if tensor_pairs.beside_replicated(run, tensor_pairs.held_tensors(operands)):
        whole = rows[0][1].data[0].placed(Placement.REPLICATE)
        return value(replace(whole, form=Layout.GATHERED, flat=True))
    if not _goes_over_first(made_of):
        return across_samples.coupled_operands(run, node, rows)
    samples = [value(*(_sample(one, made_of) for one in held.atoms)) for held in args]  # type: ignore[arg-type]
    return _together(run.call(node, made_of.arguments.get("func", UNKNOWN), samples, {}))


def _is_rows(data: Data) -> bool:
    return data.placement is Placement.SHARD and data.dim != NO_ROWS


def _goes_over_first(made_of: Instance) -> bool:
    """Whether it gives the function one sample after the other, and stacks what it makes."""
    given = (made_of.arguments.get(name) for name in ("in_dims", "out_dims"))
    return all(one is None or one.constant() == 0 for one in given)


def _sample(one: object, made_of: Instance) -> object:
    if not isinstance(one, Data) or not _is_rows(one) or one.dim:
        return one
    tag = frozenset({f"vmap {id(made_of.site)}"})
    return replace(one, dim=NO_ROWS, definition_sites=frozenset(), ndim=0, taken_by=tag)


def _together(made_of_one: Value) -> Value:
    """The rows that results of single samples make."""
    return value(*(_stacked(atom) for atom in made_of_one.atoms))  # type: ignore[arg-type]


def _stacked(atom: object) -> object:
    if isinstance(atom, Tup):
        return Tup(tuple(_together(item) for item in atom.items))
    if isinstance(atom, Data) and atom.dim == NO_ROWS:
        rows = replace(atom.placed(Placement.SHARD), dim=0, taken_by=frozenset())
        return replace(rows, form=Layout.TENSOR, one_each=True)
    return atom
