"""Commands of the system, and what somebody types: rank 0's result, for all ranks."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.synchronisation.rank0_values import on_all_ranks

from ddpify.planning.edits import Change, Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect
from ddpify.understanding.libraries.system_commands import TYPED
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import brief

# Errors of what is made of the typed text, not of typing it.
_NOT_OF_INPUT = frozenset({"ValueError", "IndexError", "KeyError", "TypeError", "AssertionError"})


def edit(plan: Plan, edits: Edits) -> None:
    """Let rank 0 run them, and tell the others what came of it."""
    for effect in plan.facts.effects.values():
        if effect.kind != "command":
            continue
        if not effect.site.module.editable or _may_be_caught(effect):
            text = (
                f"{brief(effect.site.node)}: every rank runs this; let rank 0 do, and tell others"
            )
            edits.note(effect.site, text, attention=True)
        elif on_all_ranks(plan, edits, effect.site):
            edits.change(effect.site.node, _on_main(plan.options.alias))
            edits.note(effect.site, f"{brief(effect.site.node)}: run by rank 0 for all ranks")


def _on_main(alias: str) -> Change:
    def change(updated: cst.CSTNode) -> cst.CSTNode:
        made = cst.parse_expression(f"{alias}.broadcast(_ if {alias}.is_main() else None)")
        assert isinstance(made, cst.Call) and isinstance(updated, cst.BaseExpression)
        chosen = made.args[0].value
        assert isinstance(chosen, cst.IfExp)
        first = made.args[0].with_changes(value=chosen.with_changes(body=updated))
        return made.with_changes(args=[first])

    return change


def _may_be_caught(effect: Effect) -> bool:
    """Whether the script goes on where the command fails: then rank 0 would not tell the others."""
    around = [effect.site.node, *effect.site.module.structure.up(effect.site.node)]
    tries = [node for node in around if isinstance(node, cst.Try) and node.body in around]
    if effect.name in TYPED:
        return any(_takes_end_of_input(one) for node in tries for one in node.handlers)
    return bool(tries)


def _takes_end_of_input(handler: cst.ExceptHandler) -> bool:
    """Whether a handler goes on where nobody types: ``except ValueError`` does not."""
    if handler.type is None:
        return True
    names = {node.value for node in walk(handler.type) if isinstance(node, cst.Name)}
    return not names <= _NOT_OF_INPUT
