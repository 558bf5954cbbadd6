"""Replace hard-coded accelerators by the device of the rank."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding import world
from ddpify.understanding.facts import Site
from ddpify.understanding.syntax import is_main_guard, walk
from ddpify.understanding.values import Const, Device, Lib, Method, Value


def edit(plan: Plan, edits: Edits) -> None:
    """Change device objects where they are made, and moves to a literal where they are."""
    made = _device_objects(plan, edits)
    for node, (site, target) in plan.facts.device_moves.items():
        if site.module.editable and isinstance(node, cst.Call):
            _move(plan, edits, node, site, target, made)
    _keywords(plan, edits)
    _settings(plan, edits)


def _keywords(plan: Plan, edits: Edits) -> None:
    """``torch.zeros(n, device='cuda')`` and ``torch.load(path, map_location='cuda:0')``."""
    for node in plan.module.parents:
        if not isinstance(node, cst.Call) or not _is_torchs(plan.facts.values.get(node.func)):
            continue
        for argument in node.args:
            name = argument.keyword.value if argument.keyword is not None else ""
            held = plan.facts.values.get(argument.value)
            if name not in ("device", "map_location") or held is None:
                continue
            if _names_accelerator(held) and argument.value not in edits.changes:
                edits.put(argument.value, f"{plan.options.alias}.device()")
                edits.note(plan.module.line(node), "on the device of this rank")


def _is_torchs(called: Value | None) -> bool:
    """Whether what is called is a function of PyTorch or a method."""
    atoms = called.atoms if called is not None else ()
    return any(
        isinstance(a, Method) or (isinstance(a, Lib) and a.name.startswith("torch")) for a in atoms
    )


def _device_objects(plan: Plan, edits: Edits) -> set[cst.CSTNode]:
    """``torch.device('cuda:0' if ... else 'cpu')`` and the like."""
    made: set[cst.CSTNode] = set()
    for _, site in plan.facts.calls_to("torch.device"):
        held = plan.facts.values.get(site.node)
        if not site.module.editable or held is None or not _hard_coded(held, site):
            continue
        edits.put(site.node, f"{plan.options.alias}.device()")
        edits.note(site.line, "the device of this rank")
        made.add(site.node)
    return made


def _hard_coded(held: Value, site: Site) -> bool:
    """Whether a device is one certain accelerator, or one whether or not it is there.

    A bare "cuda" that the script asks for only under some condition is left alone: it is the
    rank's own device once the process group is up.
    """
    accelerators = [a for a in held.atoms if isinstance(a, Device) and a.accelerator]
    if any(d.index is not None for d in accelerators):
        return True
    unconditional = accelerators and not any(d.conditional for d in accelerators)
    return bool(unconditional) and not _under_condition(site)


def _under_condition(site: Site) -> bool:
    node = site.node
    while node in site.module.parents and not isinstance(node, cst.FunctionDef):
        node = site.module.parents[node]
        if isinstance(node, cst.IfExp) or (
            isinstance(node, cst.If) and not is_main_guard(node.test)
        ):
            return True
    return False


def _move(
    plan: Plan,
    edits: Edits,
    node: cst.Call,
    site: Site,
    target: Value,
    made: set[cst.CSTNode],
) -> None:
    device = f"{plan.options.alias}.device()"
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if method == "cuda":
        edits.change(node, lambda updated: _to_device(updated, device))
        edits.note(site.line, "moved to the device of this rank")
    elif method == "to" and _names_accelerator(target):
        argument = _device_argument(node)
        if argument is not None:
            edits.put(argument, device)
            edits.note(site.line, "moved to the device of this rank")


def _names_accelerator(target: Value) -> bool:
    """Whether a value is an accelerator given as a number or a name, without a way out."""
    texts = {a.value for a in target.atoms if isinstance(a, Const)}
    bare = not any(isinstance(t, int) or ":" in str(t) for t in texts)
    return world.number_or_name(target) and not (bare and "cpu" in texts)


def _device_argument(node: cst.Call) -> cst.BaseExpression | None:
    for argument in node.args:
        if argument.keyword is None or argument.keyword.value == "device":
            return argument.value
    return None


def _to_device(updated: cst.CSTNode, device: str) -> cst.CSTNode:
    """``x.cuda(...)`` as ``x.to(device, ...)``."""
    assert isinstance(updated, cst.Call) and isinstance(updated.func, cst.Attribute)
    kept = [a for a in updated.args if a.keyword is not None and a.keyword.value != "device"]
    model = cst.parse_expression(f"f({device}{', _' if kept else ''})")
    assert isinstance(model, cst.Call)
    func = updated.func.with_changes(attr=cst.Name("to"))
    return updated.with_changes(func=func, args=[model.args[0], *kept])


def _settings(plan: Plan, edits: Edits) -> None:
    """What picks a GPU for the whole process is the launcher's to say."""
    for _, site in plan.facts.calls_to("torch.cuda.set_device"):
        if site.module.editable:
            _drop_set_device(plan, edits, site)
    for node in plan.module.parents:
        if isinstance(node, cst.Assign) and _sets_visible(node):
            edits.note(
                plan.module.line(node),
                "CUDA_VISIBLE_DEVICES is for the launcher to set: it hides GPUs from ranks here",
                attention=True,
            )


def _drop_set_device(plan: Plan, edits: Edits, site: Site) -> None:
    """The start of the process group has chosen the rank's device already."""
    statement = site.module.statement(site.node)
    parent = site.module.parents[site.node]
    alone = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
    if alone and isinstance(parent, cst.Expr):
        edits.remove(statement)
    else:
        edits.put(site.node, f"torch.cuda.set_device({plan.options.alias}.local_rank())")
    edits.note(site.line, "the rank's device is set when the process group starts")


def _sets_visible(node: cst.Assign) -> bool:
    return any(
        isinstance(n, cst.SimpleString) and n.evaluated_value == "CUDA_VISIBLE_DEVICES"
        for target in node.targets
        for n in walk(target.target)
    )
