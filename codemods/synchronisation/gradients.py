"""Give what is no parameter the gradients that it had in one process.

Those of a reduced loss are as many times larger as there are ranks: DistributedDataParallel divides
the gradients of the parameters again, and nothing those of the batch.
"""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.syntax import argument, brief, code_of

_CLOSED = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
_ALONE = (cst.Arg, cst.Assign, cst.Return)  # around what needs no parentheses


def edit(plan: Plan, edits: Edits) -> None:
    """Divide gradients of rows, or the loss that they are taken of, by the number of ranks."""
    _average(plan, edits)
    found = {**plan.facts.gradients.row_gradients, **plan.facts.gradients.scaled_losses}
    for node, site in found.items():
        if (
            site.module.editable
            and node in plan.facts.gradients.scaled_without_graph
            and _is_bare(node, site)
        ):
            _start_from(node, site, f"{plan.options.alias}.world_size()", edits)
        elif site.module.editable:
            alone = isinstance(site.module.parents[node], _ALONE)
            _divide(node, _scale(plan, node), edits, alone=alone)
        if site.module.editable:
            edits.note(site, f"{brief(node)}: gradients of samples, as those of one process")


def _average(plan: Plan, edits: Edits) -> None:
    """Average the gradients that the script takes itself of what all ranks hold."""
    gradients = plan.facts.gradients
    for node, site in {**gradients.averaged_gradients, **gradients.whole_gradients}.items():
        edits.wrap(node, f"{plan.options.alias}.averaged")
        edits.note(site, f"{brief(node)}: the gradients of the global batch's loss")


def _is_bare(loss: cst.CSTNode, site: Site) -> bool:
    """Whether a call takes gradients of a loss that has a name, from one on."""
    call = site.module.parents[site.module.parents[loss]]
    named = isinstance(loss, cst.Name) and isinstance(call, cst.Call)
    return named and argument(call, "grad_outputs", 2) is None  # type: ignore[arg-type]


def _start_from(loss: cst.CSTNode, site: Site, divisor: str, edits: Edits) -> None:
    """Let ``torch.autograd.grad(loss, x)`` start from a part of one: no graph would be recorded
    for a part of the loss.
    """
    call = site.module.parents[site.module.parents[loss]]
    assert isinstance(call, cst.Call)
    seed = f"{code_of(loss)}.new_tensor(1 / {divisor})"

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.Call)
        made = cst.parse_expression(f"f(grad_outputs={seed})")
        assert isinstance(made, cst.Call)
        return updated.with_changes(args=[*updated.args, *made.args])

    edits.change(call, change)


def _scale(plan: Plan, node: cst.CSTNode) -> str:
    """How many times too large a gradient is: where an optimizer trains rows, it shows when the
    script runs whether it trains these.
    """
    if isinstance(node, cst.Attribute) and plan.facts.gradients.trained_rows:
        return f"{plan.options.alias}.gradient_scale({code_of(node.value)})"
    return f"{plan.options.alias}.world_size()"


def _divide(node: cst.CSTNode, divisor: str, edits: Edits, *, alone: bool) -> None:
    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.BaseExpression)
        bare = isinstance(updated, _CLOSED) or updated.lpar
        code = f"_ / {divisor}" if bare else f"(_) / {divisor}"
        made = cst.parse_expression(code if alone else f"({code})")
        assert isinstance(made, cst.BinaryOperation)
        left = updated.with_changes(lpar=made.left.lpar, rpar=made.left.rpar)
        return made.with_changes(left=updated if bare else left)

    edits.change(node, change)
