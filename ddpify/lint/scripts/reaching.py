"""Which expressions go into a loss that `backward()` is called on."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.labels.slots import Slot


def takes(script: Script, node: cst.CSTNode) -> set[Slot]:
    """The slots that hold what is made of an expression in its own statement."""
    structure = script.structure_of(node)
    starts: set[Slot] = set()
    for above in (node, *structure.up(node)):
        starts |= {s for m in script.flow.moves_at(above) for s in m.targets}
        if isinstance(above, cst.BaseStatement):
            break
    return starts


def reaches_loss(script: Script, node: cst.CSTNode) -> bool:
    """Whether an expression's value goes, through names and functions, into a loss."""
    for above in script.structure_of(node).up(node):
        if above in script.facts.backwards:
            return True
        if isinstance(above, cst.BaseStatement):
            break
    return bool(script.flow.derived(takes(script, node)) & script.loss_slots)
