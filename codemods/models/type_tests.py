"""Compare the types of layers by equality, where the wrapping of a model gives them another class.

The type of a wrapped model, and of its normalising layers, is equal to the plain class, but not the
same object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import libcst as cst
from ddpify.codemods.models.trained_models import trained_models

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Class, QualifiedName

_CHANGED = re.compile(r"torch\.nn\.(?:modules\.\w+\.)?(?:Lazy)?(?:Batch|Instance)Norm[123]d$")


def edit(plan: Plan, edits: Edits) -> None:
    """Put ``type(x) == C`` for ``type(x) is C``."""
    wrapped = {model.type for model in trained_models(plan)}
    for node, site in plan.facts.library_calls.get("builtins.type", {}).items():
        for target, other in _identities(site.module.parents, node):
            compared = plan.facts.values.get(other)
            if compared is None or not any(_is_changed(one, wrapped) for one in compared.atoms):
                continue
            if site.module.editable:
                edits.change(target.operator, _equality)
                edits.note(site, f"{code_of(other)} for layers of a wrapped model, by equality")
            else:
                text = "a layer of a wrapped model equals its class, but is not it: compare by =="
                edits.note(site, text, attention=True)


def _identities(
    parents: Mapping[cst.CSTNode, cst.CSTNode], call: cst.CSTNode
) -> Iterator[tuple[cst.ComparisonTarget, cst.BaseExpression]]:
    """Where ``type(x)`` is compared by ``is``, with what it is compared to."""
    above = parents.get(call)
    if isinstance(above, cst.ComparisonTarget):
        comparison = parents[above]
        if isinstance(comparison, cst.Comparison) and _is_identity(above):
            yield above, comparison.left
    elif isinstance(above, cst.Comparison) and _is_identity(above.comparisons[0]):
        yield above.comparisons[0], above.comparisons[0].comparator


def _is_identity(target: cst.ComparisonTarget) -> bool:
    return isinstance(target.operator, (cst.Is, cst.IsNot))


def _is_changed(atom: object, wrapped: set[Class | str]) -> bool:
    """Whether a class may be one that layers have no more after ``dd.wrap``."""
    kind = atom.name if isinstance(atom, QualifiedName) else atom
    return kind in wrapped or (isinstance(kind, str) and bool(_CHANGED.match(kind)))


def _equality(operator: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(operator, (cst.Is, cst.IsNot))
    spaces = operator.whitespace_before, operator.whitespace_after
    other = cst.NotEqual if isinstance(operator, cst.IsNot) else cst.Equal
    return other(whitespace_before=spaces[0], whitespace_after=spaces[1])
