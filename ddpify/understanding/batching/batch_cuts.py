"""Batches that are cut down to their first rows, as ``a[:n], b[:n]`` with ``n = min(...)``.

Of a rank's own rows, the first would be others. What is cut is a batch of its own, which is shared
among the ranks anew: of two batches that are cut at one number, both are of one size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.batching import current_batch, joint_loaders
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Data, Number

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_FORMS = (Layout.TENSOR, *SEVERAL_TENSORS, Layout.YIELDED)


def cut(run: RunState, node: cst.Subscript, rows: Data, part: cst.BaseSlice) -> Data | None:
    """This rank's rows of a batch that is cut here; None where none is.

    Notes the slices at which one could be.
    """
    if not isinstance(part, cst.Slice) or part.upper is None or not _is_cuttable(run, node, rows):
        return None
    if node not in run.choices.cuts:
        run.facts.batches.cuttable[node.value] = run.site(node)
        return None
    scope = run.module.function(node) or run.module.tree
    source = run.instance(scope, run.module, f"{joint_loaders.CUT} {code_of(part.upper)}")
    current_batch.taken(run, frozenset({source}))
    return replace(
        rows, definition_sites=frozenset(), form=Layout.TENSOR, loaders=rows.loaders | {source}
    )


def _is_cuttable(run: RunState, node: cst.Subscript, rows: Data) -> bool:
    """Whether these are the first rows, up to a number that all ranks know, with all of each."""
    first, *others = (element.slice for element in node.slice)
    if not isinstance(first, cst.Slice) or first.upper is None or first.step is not None:
        return False
    whole = all(isinstance(o, cst.Slice) and o.lower is o.upper is o.step is None for o in others)
    start = first.lower is None or code_of(first.lower) == "0"
    bound = run.seen(first.upper).atoms
    known = isinstance(first.upper, cst.Name) and any(isinstance(a, Number) for a in bound)
    training = run.in_batch_loop() and run.module.editable and not run.frames_forward()
    plain = rows.dim == 0 and rows.form in _FORMS and not rows.opaque
    return whole and start and known and len(bound) == 1 and training and plain
