"""Who reads the gradients of parameters, and from where the training comes to it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.facts import Facts, Site
from ddpify.understanding.libraries.object_kinds import is_scaler
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import UNKNOWN, Instance, Params

_CLIPPING = ("torch.nn.utils.clip_grad", "torch.nn.utils.get_total_norm")
_KNOWN = ("torch.", "builtins.", "numpy.", "copy.")
_METHODS = ("step", "unscale_")


def gradient_readers(facts: Facts, project: Project) -> Iterator[Site]:
    """Whatever reads or changes gradients: steps, clipping, ``p.grad``, unseen code."""
    yield from (site for _, site in facts.calls_to(*_CLIPPING))
    for name, site in facts.calls_to(""):
        if not name.startswith(_KNOWN) and _gets_parameters(facts, site.node):
            yield site
    for file in project.files:
        for one in file.structure.all(cst.Attribute):
            if one.attr.value == "grad" and not _is_cleared_or_other(file, one):
                yield Site(one, file)
        for call in file.structure.all(cst.Call):
            if _reads(facts, call):
                yield Site(call, file)


def steps(facts: Facts, call: cst.CSTNode) -> bool:
    """Whether a call is ``optimizer.step()``, or ``scaler.step(optimizer)``, or may be."""
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value not in _METHODS:
        return False
    held = facts.values.get(call.func.value, UNKNOWN)
    objects = [one for one in held.atoms if isinstance(one, Instance)]
    known = any(one.role == "optimizer" or is_scaler(one) for one in objects)
    # Another library's scaler gets the optimizer; what a project's does is read.
    given = any(one.kind for one in objects) and _gets_parameters(facts, call)
    return known or given or not held.atoms


def _reads(facts: Facts, call: cst.Call) -> bool:
    if steps(facts, call):
        return True
    name = dotted(call.func)
    texts = (one.value for one in call.args if isinstance(one.value, cst.SimpleString))
    return name == "getattr" and any(text.evaluated_value == "grad" for text in texts)


def _gets_parameters(facts: Facts, node: cst.CSTNode) -> bool:
    given = node.args if isinstance(node, cst.Call) else ()
    held = (facts.values.get(one.value, UNKNOWN) for one in given)
    return any(
        isinstance(atom, Params) or (isinstance(atom, Instance) and atom.role == "optimizer")
        for value in held
        for atom in value.atoms
    )


def _is_cleared_or_other(file: ModuleFile, node: cst.Attribute) -> bool:
    """``p.grad = None``, ``del p.grad`` and ``torch.autograd.grad``."""
    above = file.parents[node]
    if isinstance(above, cst.AssignTarget):
        assign = file.parents[above]
        value = assign.value if isinstance(assign, cst.Assign) else None
        return isinstance(value, cst.Name) and value.value == "None"
    return isinstance(above, cst.Del) or (dotted(node) or "").endswith(
        ("autograd.grad", "func.grad")
    )
