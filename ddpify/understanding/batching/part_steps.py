"""Steps on parts of a loader's batch: ``for batches in loader: for batch in batches: ...``.

The parts may be batches that a collate function has made of one large batch, or single samples. A
rank that has its own of them makes fewer steps, or other ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.facts import Site
from ddpify.understanding.frames import Frame
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import UNPACKED
from ddpify.understanding.values import Data

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def note(run: RunState) -> None:
    """Note the loops around a ``backward()`` that go through a batch."""
    for frame in run.frames:
        for loop in frame.loops:
            through = loop.node.iter if isinstance(loop.node, cst.For) else None
            if isinstance(through, cst.Name) and _is_a_loaders_batch(run, frame, through):
                run.facts.batches.part_steps.setdefault(through, Site(through, frame.module))


def _is_a_loaders_batch(run: RunState, frame: Frame, through: cst.Name) -> bool:
    """Whether a name is all that a loop around over a loader gets."""
    outer = (loop.node for loop in frame.loops if loop.own and isinstance(loop.node, cst.For))
    if not any(_binds(loop, through.value) for loop in outer):
        return False
    held = run.seen(through).atoms
    rows = [atom for atom in held if isinstance(atom, Data) and atom.dim == 0]
    return len(rows) == len(held) > 0 and all(d.placement is Placement.SHARD for d in rows)


def _binds(loop: cst.For, name: str) -> bool:
    """Whether a loop binds a name to the whole batch, perhaps behind the number of its round."""
    target: cst.BaseExpression = loop.target
    called = loop.iter.func if isinstance(loop.iter, cst.Call) else None
    counted = isinstance(called, cst.Name) and called.value == "enumerate"
    if counted and isinstance(target, UNPACKED) and len(target.elements) == 2:
        target = target.elements[1].value
    return isinstance(target, cst.Name) and target.value == name
