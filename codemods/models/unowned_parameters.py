"""Tensors that an optimizer steps and no model holds: nothing averages their gradients."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.values import UNKNOWN, Data, Instance, Number, ReplicatedTensor

_DISPLAYS = (cst.List, cst.Tuple, cst.Set)


def refusals(plan: Plan) -> Iterator[Refusal]:
    """One for each tensor by itself among what is trained."""
    for optimizer in plan.facts.optimizers:
        for call, node in _trained(plan, optimizer):
            if _is_tensor(plan, node):
                yield Refusal(
                    optimizer.module,
                    call,
                    "this optimizer trains a tensor that no model holds: its gradients would differ"
                    " between the ranks",
                    "make it an nn.Parameter of the model, which uses it in its forward",
                )


def _trained(plan: Plan, optimizer: Instance) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """Each tensor by itself that an optimizer is told to train, with the call that tells it."""
    tree = optimizer.module.structure
    later = (call for call in tree.inside(tree.tree, cst.Call) if _adds(plan, call, optimizer))
    for call in (optimizer.site, *later):
        given = _given(call) if isinstance(call, cst.Call) else None
        for node in _elements(given) if given is not None else ():
            yield call, node  # type: ignore[misc]


def _adds(plan: Plan, call: cst.Call, optimizer: Instance) -> bool:
    """Whether this is ``optimizer.add_param_group(...)``."""
    method = call.func
    if not isinstance(method, cst.Attribute) or method.attr.value != "add_param_group":
        return False
    return optimizer in plan.facts.values.get(method.value, UNKNOWN).atoms


def _given(call: cst.Call) -> cst.BaseExpression | None:
    """What an optimizer is told to train."""
    named = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "params"]
    first = [a.value for a in call.args[:1] if a.keyword is None and not a.star]
    return next(iter((*named, *first)), None)


def _elements(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The expressions in a display of tensors, or of groups of them."""
    if isinstance(node, _DISPLAYS):
        for element in node.elements:
            yield from _elements(element.value)
    elif isinstance(node, cst.Dict):
        for pair in node.elements:
            key = pair.key if isinstance(pair, cst.DictElement) else None
            if isinstance(key, cst.SimpleString) and key.evaluated_value == "params":
                yield from _elements(pair.value)
    elif isinstance(node, (cst.Name, cst.Attribute)):
        yield node


def _is_tensor(plan: Plan, node: cst.BaseExpression) -> bool:
    """Whether a name stands for nothing but a tensor that all ranks hold."""
    atoms = plan.facts.values.get(node, UNKNOWN).atoms
    return bool(atoms) and all(
        isinstance(a, (Number, ReplicatedTensor)) or (isinstance(a, Data) and not a.placement.local)
        for a in atoms
    )
