"""Tensors that an optimizer steps and no model holds: their gradients are those of one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import brief
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Data,
    Instance,
    Number,
    ReplicatedTensor,
    deep_atoms,
)

_DISPLAYS = (cst.List, cst.Tuple, cst.Set)
_COLLECTING = frozenset({"list", "tuple", "chain", "from_iterable"})
_ADDING = frozenset({"append", "extend", "insert"})
# Those that step each number by its own gradients alone.
_BY_ELEMENT = frozenset(
    "ASGD Adadelta Adagrad Adam AdamW Adamax NAdam RAdam RMSprop Rprop SGD".split()
)


def edit(plan: Plan, edits: Edits) -> None:
    """Let each tensor by itself among what is trained have the gradients of one process."""
    alone, averaged = "gradients of samples, as those of one process", "its gradient is averaged"
    for refusal in _clipped(plan):
        plan.refuse(refusal)
    for optimizer in plan.facts.optimizers:
        for call, node in _trained(plan, optimizer):
            if _is_of_the_batch(plan, node):
                if _are_trained_by_row(plan, optimizer, node):
                    _wrap(plan, edits, Site(node, optimizer.module), "trained_rows", alone)
                else:
                    plan.refuse(_of_the_batch(optimizer, call))
            elif _is_tensor(plan, node):
                _wrap(plan, edits, Site(node, optimizer.module), "trained_tensor", averaged)


def _clipped(plan: Plan) -> Iterator[Refusal]:
    """Rows whose gradients are clipped by a norm, which goes over those of all ranks."""
    trained = plan.facts.gradients.trained_rows.keys()
    for name, site in plan.facts.calls_to("torch.nn.utils.clip_grad", "torch.nn.utils.get_total"):
        given = site.node.args[:1] if isinstance(site.node, cst.Call) else ()
        values = (plan.facts.values.get(one.value, UNKNOWN) for one in given)
        held = (atom for one in values for atom in deep_atoms(one))
        rows = [one for one in held if isinstance(one, Data) and one.placement.local]
        by_element = name.endswith("value_") and all(one.names <= trained for one in rows)
        if rows and not by_element:
            yield Refusal(
                site.module,
                site.node,
                "this clips gradients of samples by what each rank has of them",
                "clip those of each sample by itself, as by torch.renorm",
            )


def _are_trained_by_row(plan: Plan, optimizer: Instance, node: cst.BaseExpression) -> bool:
    """Whether these are a rank's rows, each of which is trained by itself."""
    rows = all(
        isinstance(a, Data) and a.placement is Placement.SHARD and a.form is Layout.TENSOR
        for a in _values(plan, node)
    )
    by_element = str(optimizer.type).removeprefix("torch.optim.") in _BY_ELEMENT
    return rows and by_element and optimizer.module.editable


def _of_the_batch(optimizer: Instance, call: cst.Call) -> Refusal:
    return Refusal(
        optimizer.module,
        call,
        "this optimizer trains rows of the batch: their gradients are those of the loss of each"
        " rank's own rows",
        "take the step by torch.autograd.grad and arithmetic",
    )


def _wrap(plan: Plan, edits: Edits, site: Site, function: str, text: str) -> None:
    if not site.module.editable:
        plan.refuse(
            Refusal(
                site.module,
                site.node,
                "this optimizer trains a tensor that no model holds, in a file that stays as it is",
                "convert the whole project",
            )
        )
        return
    edits.wrap(site.node, f"{plan.options.alias}.{function}")
    edits.note(site, f"{brief(site.node)}: {text}")


def _trained(plan: Plan, optimizer: Instance) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """Each tensor by itself that an optimizer is told to train, with the call that tells it."""
    tree = optimizer.module.structure
    later = (call for call in tree.inside(tree.tree, cst.Call) if _adds(plan, call, optimizer))
    for call in (optimizer.site, *later):
        given = _given(call) if isinstance(call, cst.Call) else None
        for node in _elements(plan, given) if given is not None else ():
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


def _elements(plan: Plan, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The expressions in a collection of tensors, or of groups of them, as far as it is written."""
    if isinstance(node, _DISPLAYS):
        parts = [element.value for element in node.elements]
    elif isinstance(node, cst.Dict):
        parts = [pair.value for pair in node.elements if _is_of_params(pair)]
    elif isinstance(node, cst.BinaryOperation):
        parts = [node.left, node.right]
    elif isinstance(node, cst.Call):
        parts = [a.value for a in node.args] if _name(node.func) in _COLLECTING else []
    elif isinstance(node, (cst.Name, cst.Attribute)):
        parts = _put_in(plan, node)
        yield node
    else:
        parts = []
    for part in parts:
        yield from _elements(plan, part)


def _is_of_params(pair: cst.BaseDictElement) -> bool:
    key = pair.key if isinstance(pair, cst.DictElement) else None
    return isinstance(key, cst.SimpleString) and key.evaluated_value == "params"


def _put_in(plan: Plan, listed: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a list of this name is made with, and what is added to it by this name."""
    held = [a for a in _values(plan, listed) if isinstance(a, Instance) and a.kind == "list"]
    made = [one.site for one in held if isinstance(one.site, cst.List)]
    trees = {id(one.module): one.module.structure for one in held}.values()
    calls = (call for tree in trees for call in tree.inside(tree.tree, cst.Call))
    added = [
        call.args[0].value
        for call in calls
        if _name(call.func) in _ADDING
        and call.args
        and isinstance(call.func, cst.Attribute)
        and call.func.value.deep_equals(listed)
    ]
    return [*made, *added]


def _name(function: cst.BaseExpression) -> str:
    named = function.attr if isinstance(function, cst.Attribute) else function
    return named.value if isinstance(named, cst.Name) else ""


def _values(plan: Plan, node: cst.BaseExpression) -> Sequence[Atom]:
    return plan.facts.values.get(node, UNKNOWN).atoms


def _is_of_the_batch(plan: Plan, node: cst.BaseExpression) -> bool:
    """Whether a name may stand for what each rank holds for its own rows."""
    return any(isinstance(a, Data) and a.placement.local for a in _values(plan, node))


def _is_tensor(plan: Plan, node: cst.BaseExpression) -> bool:
    """Whether a name stands for nothing but a tensor that all ranks hold."""
    atoms = _values(plan, node)
    return bool(atoms) and all(
        isinstance(a, (Number, ReplicatedTensor)) or (isinstance(a, Data) and not a.placement.local)
        for a in atoms
    )
