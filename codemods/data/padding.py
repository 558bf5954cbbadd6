"""Pad packed sequences as in one process, where each rank would pad to the longest of its own."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import brief


def edit(plan: Plan, edits: Edits) -> None:
    """Let the runtime helper's function of the same name do it; a note in files that stay."""
    for node, site in plan.facts.rows.padded.items():
        assert isinstance(node, cst.Call)
        if not site.module.editable:
            edits.note(
                site,
                f"{brief(node)}: each rank pads to the longest of its own sequences: right where"
                " nothing reads the padding; else convert the whole project",
                attention=True,
            )
            continue
        edits.put(node.func, f"{plan.options.alias}.pad_packed_sequence")
        edits.note(site, f"{brief(node)}: padded to the longest sequence of all ranks")
