"""What a model's layers tell of the batch that enters them: along which dimension its rows lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.batching.handmade_batches import replicated_tensors
from ddpify.understanding.forms import SEVERAL_TENSORS, Form, Layout
from ddpify.understanding.layer_containers import SEQUENTIAL
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Class,
    Const,
    Data,
    Instance,
    Number,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_LINEAR = "torch.nn.Linear"
RECURRENT = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")
_MULTIPLYING = (("num_layers", "2", 1), ("bidirectional", "6", False))  # name, position, default
# How many of the first arguments hold samples, and where a mask of positions by positions stands.
_ATTENTION = {
    "torch.nn.Transformer": (2, ("2", "3", "4", "src_mask", "tgt_mask", "memory_mask")),
    "torch.nn.TransformerEncoder": (1, ("1", "mask")),
    "torch.nn.TransformerDecoder": (2, ("2", "3", "tgt_mask", "memory_mask")),
    "torch.nn.TransformerEncoderLayer": (1, ("1", "src_mask")),
    "torch.nn.TransformerDecoderLayer": (2, ("2", "3", "tgt_mask", "memory_mask")),
    "torch.nn.MultiheadAttention": (3, ("5", "attn_mask")),
}
_BATCH_FIRST = ("torch.nn.Conv", "torch.nn.BatchNorm", "torch.nn.MaxPool", "torch.nn.AvgPool")
# Where ``batch_first`` stands among the arguments, and the argument that holds a layer that has it.
_POSITIONS = {
    "torch.nn.RNN": "5",
    "torch.nn.LSTM": "4",
    "torch.nn.GRU": "4",
    "torch.nn.Transformer": "10",
    "torch.nn.TransformerEncoderLayer": "6",
    "torch.nn.TransformerDecoderLayer": "6",
    "torch.nn.MultiheadAttention": "8",
}
_STACKS = {
    "torch.nn.TransformerEncoder": "encoder_layer",
    "torch.nn.TransformerDecoder": "decoder_layer",
}
# Forms of rows that lie where they are said to.
_APART = (Layout.TENSOR, *SEVERAL_TENSORS, Layout.YIELDED, Layout.MASKED, Layout.STATE)


def expect(run: RunState, one: Value, dim: int) -> None:
    """A layer says along which dimension it takes the batch."""
    for atom in replicated_tensors(one):
        told = run.facts.by_hand.confirmed if atom.dim == dim else run.facts.by_hand.refuted
        told.update(
            (definition_site, atom.dim_at_definition) for definition_site in atom.definition_sites
        )


def layer(
    run: RunState, target: Instance, args: list[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """What a layer makes of a batch; None where it gets none. Some layers tell its dimension."""
    batch_dims = _batch_dims(target)
    for one, dim in zip(args, batch_dims, strict=False):
        expect(run, one, dim)
    if target.kind in _ATTENTION:
        _note_masks(run, target, args, kwargs)
    if target.type in RECURRENT and args and (replicated_tensors(args[0]) or args[0].data):
        return _recurrent(target, args, batch_dims)
    if any(one.data for one in args):
        return None
    made = _through(run, target, next((one for one in args if replicated_tensors(one)), None))
    if made is not None and target.type == "torch.nn.MultiheadAttention":
        return value(Tup((made, REPLICATED)))  # with the weights
    return made


def _through(run: RunState, target: Instance, taken: Value | None) -> Value | None:
    """What a layer makes of a batch: a Linear sums over the last dimension, which has no rows."""
    if taken is None:
        return None
    for atom in replicated_tensors(taken) if _LINEAR in _first_kinds(target) else ():
        if atom.last:
            run.facts.by_hand.refuted.update(
                (definition_site, atom.dim_at_definition)
                for definition_site in atom.definition_sites
            )
    return value(
        *(replace(a, last=False) if isinstance(a, ReplicatedTensor) else a for a in taken.atoms)
    )


def _first_kinds(layer: Instance) -> set[str]:
    """The kinds of what takes the input: of a Sequential, its first layer.

    A name that holds the list of layers and then the Sequential of it may make that its own first.
    """
    found = [layer]
    for one in found:
        first = one.arguments.get("0", UNKNOWN) if one.type == SEQUENTIAL else UNKNOWN
        found += [inner for inner in first.of(Instance) if inner not in found]
    return {one.kind for one in found if one.type != SEQUENTIAL}


def _note_masks(
    run: RunState, target: Instance, args: list[Value], kwargs: Mapping[str, Value]
) -> None:
    """A mask of positions by positions is no batch, unless it is made of one as the samples are."""
    count, places = _ATTENTION[target.kind]
    given = {str(place): one for place, one in enumerate(args)} | dict(kwargs)
    definition_sites = {
        definition_site
        for one in args[:count]
        for atom in replicated_tensors(one)
        for definition_site in atom.definition_sites
    }
    masks = (atom for place in places for atom in replicated_tensors(given.get(place, UNKNOWN)))
    run.facts.by_hand.without_rows.update(
        definition_site
        for atom in masks
        for definition_site in atom.definition_sites - definition_sites
    )


def _batch_dims(target: Instance) -> tuple[int, ...]:
    """Along which dimensions of its inputs a layer expects the batch, as far as it says."""
    kind = target.kind
    first = is_batch_first(target) is True
    if kind in RECURRENT:
        return (0 if first else 1), 1
    if kind in _ATTENTION:
        return (0 if first else 1,) * _ATTENTION[kind][0]
    return (0,) if kind.startswith(_BATCH_FIRST) else ()


def is_batch_first(layer: Instance) -> bool | None:
    """Whether a recurrent layer, or one of attention, takes the batch first; None: not known."""
    held = layer.arguments
    if layer.type in _STACKS:
        inner = held.get("0") or held.get(_STACKS[layer.kind]) or UNKNOWN
        told = {is_batch_first(one) for one in inner.of(Instance)}
        return told.pop() if len(told) == 1 else None
    if layer.type not in _POSITIONS or "**" in held or _is_spread(layer.site):
        return None
    given = held.get("batch_first") or held.get(_POSITIONS[layer.kind])
    known = given.constant() if given else False
    return known if isinstance(known, bool) else None


def _is_spread(call: cst.CSTNode) -> bool:
    """Whether arguments of a call come out of a list, so that their positions are not known."""
    return isinstance(call, cst.Call) and any(argument.star == "*" for argument in call.args)


def goes_along_rows(layer: Instance, args: list[Value]) -> bool:
    """Whether a layer surely takes the samples of a batch for the steps of one sequence."""
    first = is_batch_first(layer)
    rows = [d for one in args[:1] for d in one.data if d.placement is Placement.SHARD]
    known = bool(rows) and all(not d.opaque and d.form in _APART for d in rows)
    steps = 1 if first else 0
    return known and first is not None and all(d.dim == (0 if d.ndim == 2 else steps) for d in rows)


def inherited(run: RunState, owner: Instance, args: list[Value]) -> None:
    """A layer that a model has from PyTorch's Transformer, whose batch is second unless told."""
    if isinstance(owner.type, Class) and "torch.nn.Transformer" in owner.type.library_bases():
        for one in args[:1]:
            expect(run, one, 1)


def _recurrent(target: Instance, args: list[Value], batch_dims: tuple[int, ...]) -> Value:
    """The outputs, like the inputs, and the last state, whose batch is always second."""
    held = (atom for one in args for atom in deep_atoms(one))
    sources = frozenset(s for atom in held if isinstance(atom, Data) for s in atom.loaders)
    taken = join(value(*(_from(a, sources) for a in args[0].atoms)))
    form = form_of_states(target)
    state = join(value(*(_second(a, batch_dims[1], form) for a in taken.atoms)))
    last = value(Tup((state, state))) if target.type == "torch.nn.LSTM" else state
    return value(Tup((taken, last)))


def _from(atom: Atom, sources: frozenset[Instance]) -> Atom:
    return replace(atom, loaders=sources) if isinstance(atom, Data) else atom


def _second(atom: Atom, dim: int, form: Form) -> Atom:
    """The state that belongs to an input; that of a whole batch needs no splitting of its own."""
    if isinstance(atom, Data):
        held = Layout.GATHERED if atom.form is Layout.GATHERED else form
        return replace(atom, dim=dim, definition_sites=frozenset(), form=held)
    return Number() if isinstance(atom, ReplicatedTensor) else atom


def form_of_states(layer: Instance) -> Form:
    """The form of the last states: of one layer and direction, or of several, as may be."""
    for name, position, single in _MULTIPLYING:
        given = layer.arguments.get(name) or layer.arguments.get(position)
        known = [atom.value for atom in given.of(Const)] if given else [single]
        if not known or any(one != single for one in known):
            return Layout.STATES
    return Layout.STATE
