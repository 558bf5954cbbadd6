"""Gradients that a script averages itself, without a wrapper."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import REDUCING
from ddpify.understanding.structure import walk


def steps_together(script: Script) -> bool:
    """Whether the ranks average gradients in each step: in a wrapper, or ``all_reduce(p.grad)``."""
    return script.averages or any(
        isinstance(one, cst.Attribute) and one.attr.value == "grad"
        for call in script.calls(*REDUCING, everywhere=True)
        for given in call.args
        for one in walk(given.value)
    )


def may_average_by_hand(script: Script) -> bool:
    """Whether a collective is given a gradient or something made in a loop over parameters.

    A function that reads gradients, or a hook, may hand them over in another form.
    """
    for call in script.calls(*REDUCING, everywhere=True):
        if _reads_gradients(script, call):
            return True
        for given in call.args:
            if (
                "grad" in script.code(given.value, 200)
                or script.flow.locations(given.value, script.owners[call])
                & script.parameters_in_loops
            ):
                return True
    return False


def _reads_gradients(script: Script, call: cst.Call) -> bool:
    structure = script.structure_of(call)
    around = structure.function(call)
    for above in structure.up(call):
        if isinstance(above, cst.Call) and "hook" in script.code(above.func, 200):
            return True
    return around is not None and any(
        one.attr.value == "grad" for one in structure.inside(around.body, cst.Attribute)
    )
