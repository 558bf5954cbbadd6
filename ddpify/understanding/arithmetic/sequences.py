"""Sequences: what packs and pads those of different lengths, and the layers that go along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_pairs, local_data
from ddpify.understanding.arithmetic import across_samples, tensor_pairs
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.batching import batch_layers, current_batch
from ddpify.understanding.batching.handmade_batches import replicated_tensors
from ddpify.understanding.facts import States
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import code_of, displayed, dotted
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Data,
    Instance,
    Method,
    Number,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_PACKING = ("pack_padded_sequence", "pack_sequence")
_PADDING = ("pad_packed_sequence", "pad_sequence")
SIZES = ("batch_sizes", "sorted_indices", "unsorted_indices")  # of what is packed
_TOTAL_LENGTH = 3  # its position among the arguments of pad_packed_sequence
_LSTM_CELL = "torch.nn.LSTMCell"
_CELLS = ("torch.nn.RNNCell", _LSTM_CELL, "torch.nn.GRUCell")

_ALIKE = frozenset("float double half to cuda cpu type contiguous clone detach".split())


def is_function(name: str) -> bool:
    """Whether a qualified name packs or pads sequences."""
    head, _, last = name.rpartition(".")
    return head == "torch.nn.utils.rnn" and last in (*_PACKING, *_PADDING)


def call(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """What such a function makes of rows."""
    rows = next((d for one in (*args, *kwargs.values()) for d in local_data(one)), None)
    short = name.rpartition(".")[2]
    shown = argument_pairs(node, args, kwargs)
    if short != "pack_padded_sequence" or not _split_lengths(run, shown):
        tensor_pairs.beside_replicated(run, tensor_pairs.held_tensors(shown))
    if rows is None:
        return _of_global_batches(run, short, args, kwargs)
    if short in _PACKING:
        if short == "pack_padded_sequence":
            _note_lengths(run, node, rows, args, kwargs)
        return value(_packed(rows))
    placement = rows.placement
    if placement is Placement.ROWS and short == "pad_sequence" and not run.collating:
        placement = _to_the_longest(run, node, args)
    padded = replace(rows.placed(placement), dim=_dim(args, kwargs), parted=False)
    if short == "pad_sequence":
        return value(padded)
    told = "total_length" in kwargs or len(args) > _TOTAL_LENGTH
    if rows.form is Layout.PACKED and not told and isinstance(node, cst.Call):
        run.facts.rows.padded.setdefault(node, run.site(node))
    lengths = replace(rows.placed(rows.placement), parted=False)
    return value(Tup((value(padded), value(lengths))))


def _split_lengths(run: RunState, given: Sequence[Operand]) -> bool:
    """Whether the lengths of all ranks' sequences, of which a rank takes its own, stand beside its
    own sequences: they are numbers, through which no gradient goes back.
    """
    if len(given) < 2 or run.collating or not run.module.editable:
        return False
    (_, sequences), (shown, lengths) = given[:2]
    own = [one for one in sequences.of(Data) if one.placement is Placement.SHARD]
    whole = [one for one in lengths.of(Data) if one.form is Layout.GATHERED and not one.flat]
    if len(own) != len(sequences.atoms) or len(own) != 1 or len(whole) != len(lengths.atoms):
        return False
    if not whole or own[0].form not in (Layout.TENSOR, Layout.YIELDED) or own[0].parted:
        return False
    across_samples.give_back(run, shown, own[0])
    return True


def _to_the_longest(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Placement:
    """The longest of samples that a list holds is that of all ranks' samples."""
    held = [d for one in args[:1] for d in local_data(one) if d.placement is Placement.ROWS]
    run.demand(node, value(*(d for d in held if d.definition_sites)), uses.A_STATISTIC)
    return Placement.COUPLED


def _dim(args: list[Value], kwargs: Keywords) -> int:
    """Along which dimension the rows lie of what is padded."""
    batch_first = kwargs.get("batch_first") or (args[1] if len(args) > 1 else UNKNOWN)
    return 0 if batch_first.constant() is True else 1


def _note_lengths(
    run: RunState, node: cst.BaseExpression, rows: Data, args: list[Value], kwargs: Keywords
) -> None:
    """Note lengths out of a batch that is not seen: they are those of all its rows."""
    given = argument_pairs(node, args, kwargs)
    if not run.choices.by_hand or rows.placement is not Placement.SHARD or len(given) < 2:
        return
    (shown, _), (lengths, held) = given[:2]
    if not held or not all(isinstance(a, Method) and a.receiver == REPLICATED for a in held.atoms):
        return
    first = kwargs.get("batch_first") or (args[2] if len(args) > 2 else UNKNOWN)
    dim = 0 if first.constant() is True else 1
    code = f"{code_of(shown)}.size({dim})" if dotted(shown) is not None else ""
    current_batch.used(run, node, [rows])
    run.facts.rows.lengths.setdefault(lengths, States(run.site(lengths), 0, code))


def _of_global_batches(run: RunState, short: str, args: list[Value], kwargs: Keywords) -> Value:
    """What is made of a batch by hand: what packs it tells along which dimension its rows lie."""
    held = replicated_tensors(args[0]) if args else []
    gathered = [a for a in args[0].of(Data) if _is_of_all(a)] if args else []
    if short == "pad_sequence" and any(a in run.of_all_ranks for a in args[0].atoms):
        return value(Data(Placement.REPLICATE, dim=_dim(args, kwargs), form=Layout.GATHERED))
    if gathered:
        whole = gathered[0]
        if short in _PACKING:
            return value(replace(whole, form=Layout.PACKED, dim=0, ndim=0))
        padded = value(replace(whole, form=Layout.GATHERED, dim=_dim(args, kwargs), ndim=0))
        lengths = value(replace(whole, form=Layout.GATHERED, dim=0, ndim=1))
        return value(Tup((padded, lengths))) if short == "pad_packed_sequence" else padded
    if not held:
        return REPLICATED
    taken = value(Number(), *held)
    if short == "pack_padded_sequence":
        first = kwargs.get("batch_first") or (args[2] if len(args) > 2 else UNKNOWN)
        batch_layers.expect(run, taken, 0 if first.constant() is True else 1)
    return value(Tup((taken, REPLICATED))) if short == "pad_packed_sequence" else taken


def _packed(rows: Data) -> Data:
    return replace(rows.placed(rows.placement), form=Layout.PACKED, dim=0, parted=True)


def elements(packed: Data) -> Data:
    """The time steps of packed sequences, ``packed.data``: as many as this rank's rows have.

    All sequences' first steps come first, then the second: those of ranks cannot be put together.
    """
    if _is_of_all(packed):
        return replace(packed, form=Layout.GATHERED, flat=True)
    return replace(packed, definition_sites=frozenset(), form=Layout.MASKED)


def _is_of_all(rows: Data) -> bool:
    """Whether these are sequences of all ranks, packed or not."""
    packed = rows.form is Layout.PACKED and not rows.placement.local
    return packed or rows.form is Layout.GATHERED


def sizes(packed: Data) -> Data:
    """What tells how they are packed, ``packed.batch_sizes``: computed of all sequences at once."""
    if _is_of_all(packed):
        return packed.placed(packed.placement)
    whole = replace(packed, placement=Placement.COUPLED, definition_sites=frozenset())
    return replace(whole, form=Layout.TENSOR)


def through_layer(layer: Instance, args: list[Value]) -> Value | None:
    """What a recurrent layer makes of rows: outputs like its input, and the last states."""
    if layer.type not in (*batch_layers.RECURRENT, _LSTM_CELL):
        return None
    held = [a for one in args[:1] for a in one.of(Data)]
    rows = next((d for d in held if d.placement is Placement.SHARD), None)
    if rows is None:
        return _of_all_ranks(layer, [d for d in held if _is_of_all(d)])
    if layer.type == _LSTM_CELL:
        of_each = value(replace(rows.placed(Placement.SHARD), dim=rows.dim, ndim=rows.ndim))
        return value(Tup((of_each, of_each)))
    form = batch_layers.form_of_states(layer)
    state = value(replace(rows.placed(Placement.SHARD), form=form, dim=1, parted=False))
    states = value(Tup((state, state))) if layer.type == "torch.nn.LSTM" else state
    packed = rows.form is Layout.PACKED
    outputs = rows if packed or rows.form is Layout.STATE else rows.placed(rows.placement)
    return value(Tup((value(outputs), states)))


def _of_all_ranks(layer: Instance, rows: list[Data]) -> Value | None:
    """The same of the rows of all ranks, which the outputs and the last states are as well."""
    if not rows:
        return None
    outputs = value(*rows)
    if layer.type == _LSTM_CELL:
        return value(Tup((outputs, outputs)))
    state = value(*(replace(one, form=Layout.GATHERED, dim=1, ndim=0) for one in rows))
    last = value(Tup((state, state))) if layer.type == "torch.nn.LSTM" else state
    return value(Tup((outputs, last)))


def note_states(
    run: RunState, node: cst.BaseExpression, layer: Instance, args: list[Value], kwargs: Keywords
) -> None:
    """Note the states of a whole batch that a recurrent layer gets beside this rank's rows.

    ``torch.zeros(1, batch_size, hidden)`` has as many rows as the batch of one process.
    """
    if layer.type not in (*batch_layers.RECURRENT, *_CELLS):
        return
    given = argument_pairs(node, args, kwargs)
    _all_or_none(run, [shown for shown, _ in given[:2]])
    first = given[0][1].data if given else []
    rows = next((d for d in first if d.placement is Placement.SHARD), None)
    if len(given) < 2 or rows is None or given[1][0] is node:
        return
    shown, states = given[1]
    for one in displayed(shown) or [shown]:
        parts = (data for data in local_data(run.seen(one)) if data.placement.partial)
        run.demand(one, value(*parts), uses.ARITHMETIC)  # each row meets what all of them make
    held = list(deep_atoms(states))
    if run.choices.by_hand and any(isinstance(a, (Data, ReplicatedTensor)) for a in held):
        return  # it meets the batch, and is split where it is made
    dim = 0 if layer.type in _CELLS else 1
    code = _rows_code(given[0][0], rows, layer)
    # Without a dimension and a size, an LSTM's two states cannot be told from two rows.
    if (dim or code) and any(isinstance(a, Number) for a in held):
        current_batch.used(run, node, [rows])
        run.facts.rows.states.setdefault(shown, States(run.site(shown), dim, code))


def _all_or_none(run: RunState, shown: list[cst.BaseExpression]) -> None:
    """Ask for the rows of all ranks as sequences where the states have them, or the other way."""
    parts = [part for one in shown for part in displayed(one) or [one]]
    held = [(p, a) for p in parts for a in deep_atoms(run.seen(p)) if isinstance(a, Data)]
    tensor_pairs.beside_replicated(run, held)


def _rows_code(shown: cst.BaseExpression, rows: Data, layer: Instance) -> str:
    """Code for the number of rows in a layer's input."""
    shown = _of_the_same_sizes(shown)
    if dotted(shown) is None:
        return ""
    if rows.form is Layout.PACKED:
        return f"{code_of(shown)}.batch_sizes[0]"
    told = batch_layers.is_batch_first(layer)
    batch_first = layer.type in _CELLS or (rows.dim == 0 if told is None else told)
    return f"{code_of(shown)}.size({0 if batch_first else 1})"


def _of_the_same_sizes(shown: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` of ``x.float().contiguous()``."""
    while isinstance(shown, cst.Call) and isinstance(shown.func, cst.Attribute):
        if shown.func.attr.value not in _ALIKE:
            break
        shown = shown.func.value
    return shown
