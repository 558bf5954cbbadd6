"""Commands of the system whose result the script goes by: rank 0's, for all ranks."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.synchronisation.rank0_values import on_all_ranks

from ddpify.planning.edits import Change, Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect
from ddpify.understanding.syntax import brief


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
    structure = effect.site.module.structure
    return any(isinstance(node, cst.Try) for node in structure.up(effect.site.node))
