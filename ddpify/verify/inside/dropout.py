"""Dropout as the identity."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ddpify.verify.inside.patching import faked, replace
from ddpify.verify.inside.place import PLACE
from ddpify.verify.inside.randomness import state

MAX_TOLD = 100
_DROPOUTS = [
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
    "feature_dropout",
]


active = 0
"""Calls so far that would have dropped something."""


dropped: list[int] = []
"""The states of torch's generator before the first of them."""


def _note(p: Any, training: Any) -> None:
    global active
    if training and float(p) > 0:
        active += 1
        if len(dropped) < MAX_TOLD and not PLACE.real:
            dropped.append(state(torch.device("cpu")))


def _noted(forward: Any) -> Any:
    """A recurrent layer's forward, noted where it would drop something between its layers."""

    @functools.wraps(forward)
    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        _note(getattr(layer, "_drops", 0.0), layer.training)
        return forward(layer, *args, **kwargs)

    return call


def install() -> None:
    """Switch it off in functions, attention and recurrent layers."""
    functional = torch.nn.functional

    def identity(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        faked["dropout (off)"] += 1
        p, training = (*args, *(0.5, True)[len(args) :])[:2]
        _note(kwargs.get("p", p), kwargs.get("training", kwargs.get("train", training)))
        # Dropped weights are an activation, not a parameter: modules assign them as a plain tensor.
        return input.view_as(input) if isinstance(input, torch.nn.Parameter) else input

    for name in _DROPOUTS:
        for owner in (functional, torch):
            if hasattr(owner, name):
                replace(owner, name, identity)
    attention = functional.scaled_dot_product_attention

    def without_dropout(query: Any, key: Any, value: Any, attn_mask: Any = None,
                        dropout_p: float = 0.0, *args: Any, **kwargs: Any) -> Any:  # fmt: skip
        _note(dropout_p, True)
        return attention(query, key, value, attn_mask, 0.0, *args, **kwargs)

    replace(functional, "scaled_dot_product_attention", without_dropout)
    recurrent = torch.nn.RNNBase.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        recurrent(self, *args, **kwargs)
        self._drops, self.dropout = self.dropout, 0.0

    replace(torch.nn.RNNBase, "__init__", init)
    for layer in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU):
        replace(layer, "forward", _noted(layer.forward))
