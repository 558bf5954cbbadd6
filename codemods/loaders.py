"""Give each rank its slice of every global batch; run unsplit loaders alike on all ranks."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan, loader_instances
from ddpify.planning.refusals import Refusal
from ddpify.understanding.syntax import code_of, names_of
from ddpify.understanding.values import Instance


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap the calls that make loaders, or the names they are bound to."""
    for loader in loader_instances(plan):
        unsplit = plan.replicated.get(loader.site)
        function = f"{plan.options.alias}.{'replicate' if unsplit else 'shard'}"
        classic = plan.options.sampler == "distributed" and not unsplit
        extra = ', sampler="distributed"' if classic else ""
        for line in _wrap(plan, edits, loader, function, extra):
            text = f"runs whole on every rank: {unsplit}" if unsplit else "split among the ranks"
            edits.note(line, f"loader {text}")
            if classic:
                edits.note(
                    line,
                    "samples come in DistributedSampler's order, not in the original's",
                    attention=True,
                )


def _wrap(plan: Plan, edits: Edits, loader: Instance, function: str, extra: str) -> Iterator[int]:
    if loader.module.editable and isinstance(loader.site, cst.Call):
        _wrap_call(plan, edits, loader.site, function, extra)
        yield plan.module.line(loader.site)
        return
    found = False
    for statement, target in _bindings(plan, loader):
        found = True
        edits.rebind(statement, code_of(target), function, extra)
        yield plan.module.line(statement)
    if not found:
        raise Refusal(
            loader.module,
            loader.site,
            f"the loader is made in {loader.module.path.name}, and {plan.module.path.name} gives"
            " it no name",
            "bind the loader to a name in the script, or convert the whole project",
        )


def _wrap_call(plan: Plan, edits: Edits, call: cst.Call, function: str, extra: str) -> None:
    """Wrap a call of one line in place; after one of several lines, rebind its name."""
    parent = plan.module.parents[call]
    if isinstance(parent, cst.Assign) and "\n" in code_of(call) and len(parent.targets) == 1:
        target = parent.targets[0].target
        if isinstance(target, (cst.Name, cst.Attribute)):
            edits.rebind(plan.module.statement(call), code_of(target), function, extra)
            return
    if not edits.wrapped.get(call):
        edits.wrap(call, function, extra)


def _bindings(plan: Plan, loader: Instance) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """The statements of the script that bind a loader of another file to a name."""
    for node in plan.module.parents:
        if not isinstance(node, cst.Assign) or not isinstance(node.value, cst.Call):
            continue
        for target in node.targets:
            for name in names_of(target.target):
                held = plan.facts.values.get(name)
                if held is not None and loader in held.atoms:
                    yield plan.module.statement(node), name
