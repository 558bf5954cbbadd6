"""Expressions with the batch in another dimension, and back: {x} and {y} are (rows, 4)."""

from __future__ import annotations

_OUT_AND_BACK = [
    ("{x}.T", ".T"),
    ("{x}.transpose(0, 1)", ".transpose(0, 1)"),
    ("{x}[None]", "[0]"),
    ("{x}.unsqueeze(0)", ".squeeze(0)"),
    ("{x}[:, None]", "[:, 0]"),
    ("{x}.T[None]", "[0].T"),
    ("{x}.view(-1, 2, 2)", ".flatten(1)"),
    ("{x}.view(-1, 2, 2).transpose(0, 1)", ".transpose(0, 1).flatten(1)"),
    ("{x}.view(-1, 2, 2).permute(2, 1, 0)", ".permute(2, 1, 0).reshape(-1, 4)"),
    ("torch.stack([{x}, {y}])", "[1]"),
    ("torch.stack([{x}, {y}], 1)", ".sum(1)"),
    ("torch.stack([{x}, {y}], dim=2)", ".sum(-1)"),
    ("{x}[None].expand(2, -1, -1)", ".sum(0)"),
]
_WORKS = [
    *(
        f".{name}({d})"
        for name in ("softmax", "cumsum", "flip", "cumprod", "logcumsumexp", "log_softmax")
        for d in ("0", "1", "-1", "-2")
    ),
    *(f".roll(1, {d})" for d in ("0", "1", "-1", "-2")),
    *(f".sort({d}).values" for d in ("0", "1", "-1", "-2")),
    " * 2",
    ".tanh()",
]

DIMENSIONS = [f"({out}{work}){back}" for out, back in _OUT_AND_BACK for work in _WORKS]
