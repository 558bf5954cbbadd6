"""Rows that a script makes for all samples of a batch without what the samples hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.values import Data, Value, deep_atoms

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_EMPTY = frozenset(
    "empty empty_like full full_like new_empty new_full new_ones new_zeros ones ones_like zeros"
    " zeros_like".split()
)
_MOVING = frozenset("cpu cuda double float half to type type_as".split())
_ONE_EACH = (Layout.TENSOR, Layout.YIELDED, Layout.BATCH, Layout.PART)


def note_filled(run: RunState, filled: list[Data], new: Value) -> None:
    """Note the places of tensors into which something of samples is written."""
    held = (atom for atom in deep_atoms(new) if isinstance(atom, Data))
    if not all(isinstance(atom.form, NumberKind) for atom in held):
        run.facts.rows.filled_with_rows.update(name for one in filled for name in one.names)


def can_be_split(run: RunState, rows: Data, own: Data) -> bool:
    """Whether a rank can take its own of all ranks' rows to meet its own of a batch.

    They are drawn, or filled with numbers alone, so that no gradient goes back to them, and there
    is one for each sample of the same batch.
    """
    filled = run.facts.rows.filled_with_rows
    made = (name not in filled and _is_made(run, name) for name in rows.names)
    single = own.form in _ONE_EACH and not (own.flat or own.several)
    return single and rows.loaders == own.loaders and bool(rows.names) and all(made)


def _is_made(run: RunState, shown: cst.BaseExpression) -> bool:
    """Whether an expression draws rows or makes empty ones, perhaps of another kind or device."""
    if shown in run.facts.random.draws:
        return True
    called = shown.func if isinstance(shown, cst.Call) else None
    if isinstance(called, cst.Attribute):
        moved = called.attr.value in _MOVING
        return called.attr.value in _EMPTY or (moved and _is_made(run, called.value))
    return isinstance(called, cst.Name) and called.value in _EMPTY
