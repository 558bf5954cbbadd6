"""What a backward of the script's own must not do on several ranks, each with its own samples.

It must not write by index into what it was given, nor divide by what it adds up over the samples.
A sum alone is a part of the sum over all ranks, as the gradients of weights are.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.backward_statistics import over_rows
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.object_kinds import OWN_FUNCTIONS, is_own_function
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import UNPACKED, argument, divisor, dotted
from ddpify.understanding.values import UNKNOWN, Class, QualifiedName

_WRITING = frozenset("index_copy_ index_add_ index_put_ index_fill_ scatter_ scatter_add_".split())


def written(facts: Facts, project: Project) -> Iterator[Refusal]:
    """The writes, in a backward of the script's own, to what its forward was given."""
    for module, backward in _backwards(facts, project):
        yield from _writes(module, backward)


def divided(facts: Facts, project: Project) -> Iterator[Refusal]:
    """The divisions, in a backward of the script's own, by sums over a rank's own samples."""
    for module, backward in _backwards(facts, project):
        sums = _sums_over_rows(backward)
        for node in walk(backward.body):
            if any(_divides(node, part) for part in sums):
                yield Refusal(
                    module,
                    node,
                    "this backward divides by what it adds up over the samples: each rank would"
                    " divide by the sum over its own",
                    "divide in the forward, or by a number that does not depend on the batch",
                )


def averaged(facts: Facts, project: Project) -> Iterator[Refusal]:
    """The means and extremes over a rank's own samples, in a backward of the script's own."""
    for module in project.files:
        for made in module.structure.all(cst.ClassDef):
            rows = facts.forwards.applied.get(made, set())
            for call, name in over_rows(module, made, rows) if rows else ():
                yield Refusal(
                    module,
                    call,
                    f"this backward takes {name}() over the samples: each rank would take that of"
                    " its own",
                    "compute it in the forward of a module, of a tensor that does not depend on the"
                    " batch or of each sample alone, and pass it to apply()",
                )


def _backwards(facts: Facts, project: Project) -> Iterator[tuple[ModuleFile, cst.FunctionDef]]:
    for module in project.files:
        for made in module.structure.all(cst.ClassDef):
            replicated = (
                made in facts.forwards.applied_to_all and made not in facts.forwards.applied
            )
            if replicated or not _is_function(facts, made):
                continue
            for one in module.structure.inside(made.body, cst.FunctionDef):
                if one.name.value == "backward":
                    yield module, one


def _sums_over_rows(backward: cst.FunctionDef) -> list[cst.BaseExpression]:
    """The calls that add up along the first dimension, and the names that they get."""
    found: list[cst.BaseExpression] = []
    for node in walk(backward.body):
        if isinstance(node, cst.Assign) and _adds_rows(node.value):
            found += [one.target for one in node.targets]
        elif _adds_rows(node):
            found.append(node)  # type: ignore[arg-type]
    return found


def _adds_rows(call: cst.CSTNode) -> bool:
    """``x.sum(0)``, ``torch.sum(x, dim=0)``."""
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value != "sum":
        return False
    of_torch = dotted(call.func.value) == "torch"
    given = argument(call, "dim", 1 if of_torch else 0)
    return given is not None and isinstance(given.value, cst.Integer) and given.value.value == "0"


def _divides(node: cst.CSTNode, part: cst.BaseExpression) -> bool:
    """Whether a node divides by a sum, or by what has its name."""
    by = divisor(node)
    return by is not None and any(one is part or one.deep_equals(part) for one in walk(by))


def _is_function(facts: Facts, made: cst.ClassDef) -> bool:
    held = (a for base in made.bases for a in facts.values.get(base.value, UNKNOWN).atoms)
    return any(
        (isinstance(a, QualifiedName) and a.name in OWN_FUNCTIONS)
        or (isinstance(a, Class) and is_own_function(a))
        for a in held
    )


def _writes(module: ModuleFile, backward: cst.FunctionDef) -> Iterator[Refusal]:
    saved = set(_saved_names(backward))
    for node in walk(backward.body):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            owner = dotted(node.func.value) or ""
            if node.func.attr.value in _WRITING and owner.split(".")[0] in saved:
                yield Refusal(
                    module,
                    node,
                    "this backward keeps what it makes of a rank's own samples: ranks would come to"
                    " hold different tensors",
                    "write it in the training step, by the labels or positions of the samples",
                )


def _saved_names(backward: cst.FunctionDef) -> Iterator[str]:
    """The names that a backward gives to what its forward has saved."""
    for node in walk(backward.body):
        if not isinstance(node, cst.Assign):
            continue
        value = node.value
        if isinstance(value, cst.Attribute) and value.attr.value == "saved_tensors":
            for target in (one.target for one in node.targets):
                elements = target.elements if isinstance(target, UNPACKED) else ()
                yield from (e.value.value for e in elements if isinstance(e.value, cst.Name))
