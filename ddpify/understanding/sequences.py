"""Sequences of different lengths: what packs and pads them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ddpify.understanding.arguments import Keywords, local_data
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import REPLICATED, UNKNOWN, Data, Instance, Tup, Value, value

if TYPE_CHECKING:
    pass

_PACKING = ("pack_padded_sequence", "pack_sequence")
_PADDING = ("pad_packed_sequence", "pad_sequence")
_RECURRENT = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")


def is_function(name: str) -> bool:
    """Whether a qualified name packs or pads sequences."""
    head, _, last = name.rpartition(".")
    return head == "torch.nn.utils.rnn" and last in (*_PACKING, *_PADDING)


def call(name: str, args: list[Value], kwargs: Keywords) -> Value:
    """What such a function makes of rows."""
    rows = next((d for one in (*args, *kwargs.values()) for d in local_data(one)), None)
    if rows is None:
        return REPLICATED
    short = name.rpartition(".")[2]
    if short in _PACKING:
        return value(_packed(rows))
    batch_first = kwargs.get("batch_first") or (args[1] if len(args) > 1 else UNKNOWN)
    padded = replace(rows.placed(rows.placement), dim=0 if batch_first.constant() is True else 1)
    if short == "pad_sequence":
        return value(padded)
    return value(Tup((value(padded), value(rows.placed(rows.placement)))))


def _packed(rows: Data) -> Data:
    return replace(rows.placed(rows.placement), form="packed", dim=0)


def elements(packed: Data) -> Data:
    """The time steps of packed sequences, ``packed.data``: as many as this rank's rows have."""
    return replace(packed, births=frozenset(), form="masked")


def through_layer(layer: Instance, args: list[Value]) -> Value | None:
    """What a recurrent layer makes of packed sequences: such, and states of as many rows."""
    packed = next((d for one in args[:1] for d in one.data if d.form == "packed"), None)
    if packed is None or layer.type not in _RECURRENT:
        return None
    states = replace(packed.placed(Placement.SHARD), dim=1)
    return value(Tup((value(packed), value(states))))
