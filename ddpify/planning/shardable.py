"""What cannot be done with a model whose parameters are sharded, and is refused."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Instance, Params, deep_atoms

_OPTIMIZERS = {
    "LBFGS": "it joins all parameters into one vector",
    "SparseAdam": "sharded parameters have no sparse gradients",
}
_DDP = "convert it with --strategy ddp"


def refuse_unshardable(plan: Plan) -> None:
    """Raise :class:`Refusal` where a script does with its model what sharding does not allow."""
    _refuse_optimizers(plan)
    _refuse_moves_after_optimizers(plan)
    _refuse_second_derivatives(plan)
    for site in plan.facts.gradients.gradient_hooks.values():
        raise _refusal(site, "a sharded parameter has no gradient of its own for a hook", _DDP)
    for site in plan.facts.gradients.averaged_gradients.values():
        raise _refusal(site, "a sharded model's gradients can be had from backward() alone", _DDP)
    for effect in plan.facts.effects.values():
        _refuse_effect(plan, effect)


def _refusal(site: Site, message: str, remedy: str) -> Refusal:
    return Refusal(site.module, site.node, message, remedy)


def _refuse_optimizers(plan: Plan) -> None:
    for optimizer in plan.facts.optimizers:
        kind = optimizer.kind.rsplit(".", 1)[-1]
        if kind in _OPTIMIZERS:
            raise _refusal(
                Site(optimizer.site, optimizer.module),
                f"{kind} cannot step a sharded model: {_OPTIMIZERS[kind]}",
                _DDP,
            )


def _refuse_moves_after_optimizers(plan: Plan) -> None:
    """A model is sharded before its optimizer is made, on the device where it stays."""
    for events in plan.facts.events.values():
        kinds = [event.kind for event in events]
        first = kinds.index("optimize") if "optimize" in kinds else len(events)
        for event in events[first:]:
            if event.kind in ("move", "parallel") and "make" in kinds:
                raise _refusal(
                    event.site,
                    "the model is moved after an optimizer was made from its parameters, but must "
                    "be sharded before that, where it stays",
                    "make the optimizer after this line",
                )


def _refuse_second_derivatives(plan: Plan) -> None:
    for name, site in plan.facts.calls_to("torch.autograd.grad"):
        if any(_is_true(argument, "create_graph") for argument in _arguments(site.node)):
            raise _refusal(
                site,
                f"{name} with create_graph differentiates a second time, for which FSDP does not "
                "gather the parameters again",
                _DDP,
            )


def _arguments(node: cst.CSTNode) -> tuple[cst.Arg, ...]:
    return tuple(node.args) if isinstance(node, cst.Call) else ()


def _is_true(argument: cst.Arg, name: str) -> bool:
    given = argument.keyword is not None and argument.keyword.value == name
    return given and code_of(argument.value) != "False"


def _refuse_effect(plan: Plan, effect: Effect) -> None:
    """Writing by rank 0 alone does not put a sharded model together, or waits for other ranks."""
    if effect.kind == "save" and not effect.site.module.editable:
        called = next((c for c in reversed(effect.calls) if c.module.editable), effect.site)
        raise _refusal(
            called,
            f"{effect.site.module.path.name}:{effect.site.line} saves, in a file that is not "
            "converted, what only all ranks together can gather",
            "convert the whole project, or save in the script itself",
        )
    if effect.kind in ("write", "log") and effect.site.module.editable:
        statement = effect.site.module.statement(effect.site.node)
        saves = any(("save", node) in plan.facts.effects for node in walk(statement))
        if not saves and _reads_a_model(plan, statement):
            raise _refusal(
                effect.site,
                "rank 0 writes here alone, from a model of which every rank holds a part",
                "compute what is written on a line of its own before, or save it with torch.save",
            )


def _reads_a_model(plan: Plan, statement: cst.CSTNode) -> bool:
    return any(_is_of_a_model(atom) for node in walk(statement) for atom in _atoms(plan, node))


def _atoms(plan: Plan, node: cst.CSTNode) -> Iterator[object]:
    held = plan.facts.values.get(node)
    return iter(deep_atoms(held)) if held is not None else iter(())


def _is_of_a_model(atom: object) -> bool:
    return isinstance(atom, Params) or (isinstance(atom, Instance) and is_model(atom))
