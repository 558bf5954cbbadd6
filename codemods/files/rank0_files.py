"""Let rank 0 alone write: checkpoints, other files, folders, logs and progress bars."""

from __future__ import annotations

from ddpify.codemods.files.folders import download, folder, made_once, wait_once
from ddpify.codemods.files.loggers import bar, logfile, writer
from ddpify.codemods.files.rank0_writes import guard, save
from ddpify.codemods.synchronisation.rank0_values import on_each_node

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan

_FIRST = ("download", "save")  # in what one rank of each node downloads, it writes as well


def edit(plan: Plan, edits: Edits) -> None:
    """Change every place that writes."""
    once = {node for effect in plan.facts.effects.values() for node in made_once(plan, effect)}
    order = (*_FIRST, *(kind for kind in _HANDLERS if kind not in _FIRST))
    effects = [effect for effect in plan.facts.effects.values() if effect.kind in _HANDLERS]
    for effect in sorted(effects, key=lambda one: order.index(one.kind)):
        site = effect.site if effect.site.module.editable else effect.reached_from
        handler = _HANDLERS.get(effect.kind)
        if site is None or handler is None:
            continue
        around = effect.site.module.structure.up(effect.site.node)
        written = effect.kind in ("save", "write", "log")
        if written and (not once.isdisjoint(around) or on_each_node(plan, edits, effect.site)):
            continue
        handler(plan, edits, effect, site)
    for effect in plan.facts.effects.values():
        wait_once(plan, edits, effect)


_HANDLERS = {
    "save": save,
    "write": guard,
    "log": guard,
    "folder": folder,
    "download": download,
    "bar": bar,
    "writer": writer,
    "logfile": logfile,
}
