"""Replace hard-coded accelerators by the device of the rank."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.devices import device_choices
from ddpify.codemods.devices.device_names import DeviceNames

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries import side_effects
from ddpify.understanding.libraries.actions import ACCELERATORS
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, is_main_guard
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import UNKNOWN, Const, Device, Method, QualifiedName, Value


def edit(plan: Plan, edits: Edits) -> None:
    """Change device objects where they are made, and moves to a literal where they are."""
    done = _OfRank(plan, edits)
    _device_objects(plan, edits, done)
    for node, (site, target) in plan.facts.device_moves.items():
        if site.module.editable and isinstance(node, cst.Call):
            _move(plan, edits, site, target, done)
    _keywords(plan, edits, done)
    _settings(plan, edits)


class _OfRank:
    """The names that the conversion sets to the device of the rank, known where they are read."""

    def __init__(self, plan: Plan, edits: Edits) -> None:
        self._set: set[Location] = set()
        self._names: DeviceNames | None = None
        for site in plan.sites(cst.Assign):
            assert isinstance(site.node, cst.Assign)
            if not _names_accelerator(plan.facts.values.get(site.node.value, UNKNOWN)):
                continue  # most assignments, and the search for uses goes through all files
            self._names = self._names or DeviceNames(plan)
            locations = self._names.set_by(site)
            if locations:
                edits.put(site.node.value, _of_rank(plan, site.module, site.node.value))
                edits.note(site, "the device of this rank", rule="hard-coded-device")
                self._set |= locations

    def holds(self, module: ModuleFile, asked: cst.BaseExpression | None) -> bool:
        """Whether an expression reads such a name."""
        if self._names is None or not self._set or asked is None:
            return False
        return not self._set.isdisjoint(self._names.locations(Site(asked, module)))


def _keywords(plan: Plan, edits: Edits, done: _OfRank) -> None:
    """``torch.zeros(n, device='cuda')`` and ``torch.load(path, map_location='cuda:0')``."""
    for site in plan.sites(cst.Call):
        node = site.node
        if not isinstance(node, cst.Call) or not _is_torchs(plan.facts.values.get(node.func)):
            continue
        for argument in node.args:
            name = argument.keyword.value if argument.keyword is not None else ""
            held = plan.facts.values.get(argument.value)
            if name not in ("device", "map_location") or held is None:
                continue
            if done.holds(site.module, argument.value):
                continue
            if _names_accelerator(held) and argument.value not in edits.changes:
                edits.put(argument.value, _of_rank(plan, site.module, argument.value))
                edits.note(site, "on the device of this rank", rule="hard-coded-device")


def _is_torchs(called: Value | None) -> bool:
    """Whether what is called is a function of PyTorch or a method."""
    atoms = called.atoms if called is not None else ()
    return any(
        isinstance(a, Method) or (isinstance(a, QualifiedName) and a.name.startswith("torch"))
        for a in atoms
    )


def _device_objects(plan: Plan, edits: Edits, done: _OfRank) -> None:
    """``torch.device('cuda:0' if ... else 'cpu')`` and the like."""
    for _, site in plan.facts.calls_to("torch.device"):
        held = plan.facts.values.get(site.node)
        if not site.module.editable or held is None:
            continue
        assert isinstance(site.node, cst.Call)
        asked = site.node.args[0].value if site.node.args else None
        if done.holds(site.module, asked):
            continue
        if not (_hard_coded(held, site) or _formats_an_index(site.node)):
            _device_option(plan, edits, site)
            continue
        edits.put(site.node, _of_rank(plan, site.module, asked))
        edits.note(site, "the device of this rank", rule="hard-coded-device")


def _of_rank(plan: Plan, module: ModuleFile, asked: cst.BaseExpression | None) -> str:
    """The device of the rank in place of an accelerator; where its user may choose, as chosen."""
    function = f"{plan.options.alias}.device"
    if asked is None or not device_choices.may_choose(plan.facts, asked, module):
        return f"{function}()"
    return f"{function}({code_of(asked)})"


def _device_option(plan: Plan, edits: Edits, site: Site) -> None:
    """``torch.device('cuda' if args.cuda else 'cpu')`` does not ask which accelerator is there."""
    given = site.node.args[0].value if isinstance(site.node, cst.Call) and site.node.args else None
    if not isinstance(given, cst.IfExp) or device_choices.asks_what_is_there(
        plan.facts, given.test, site.module
    ):
        return
    held = plan.facts.values.get(given.body)
    if held is not None and _names_accelerator(held):
        edits.put(given.body, f"{plan.options.alias}.device()")
        edits.note(site, "the device of this rank, if one is asked for", rule="hard-coded-device")


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


def _formats_an_index(node: cst.CSTNode) -> bool:
    """``"cuda:{}".format(args.gpu)``, ``f"cuda:{gpu}"``: the same device on every rank."""
    texts = [n.raw_value for n in walk(node) if isinstance(n, cst.SimpleString)]
    texts += [n.value for n in walk(node) if isinstance(n, cst.FormattedStringText)]
    return any(text.startswith(f"{kind}:") for text in texts for kind in ACCELERATORS)


def _under_condition(site: Site) -> bool:
    """Whether a branch inside the function leads to a place."""
    for node in site.module.structure.up(site.node):
        if isinstance(node, cst.FunctionDef):
            return False
        if isinstance(node, cst.IfExp):
            return True
        if isinstance(node, cst.If) and not is_main_guard(node.test):
            return True
    return False


def _move(plan: Plan, edits: Edits, site: Site, target: Value, done: _OfRank) -> None:
    node = site.node
    assert isinstance(node, cst.Call)
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if method == "cuda":
        device = f"{plan.options.alias}.device()"
        edits.change(node, lambda updated: _to_device(updated, device))
        edits.note(site, "moved to the device of this rank", rule="hard-coded-device")
    elif method == "to" and _names_accelerator(target):
        argument = _device_argument(node)
        if argument is not None and not done.holds(site.module, argument):
            edits.put(argument, _of_rank(plan, site.module, argument))
            edits.note(site, "moved to the device of this rank", rule="hard-coded-device")


def _names_accelerator(target: Value) -> bool:
    """Whether a value is an accelerator given as a number or a name, without a way out."""
    texts = {a.value for a in target.atoms if isinstance(a, Const)}
    bare = not any(isinstance(t, int) or ":" in str(t) for t in texts)
    return side_effects.number_or_name(target) and not (bare and "cpu" in texts)


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
    for name, site in plan.facts.calls_to("torch.cuda.device"):
        within = isinstance(site.module.parents.get(site.node), cst.WithItem)
        if name == "torch.cuda.device" and within and site.module.editable:
            _stay_on_device(edits, site)
    for site in plan.sites(cst.Assign):
        assert isinstance(site.node, cst.Assign)
        targets = (one.target for one in site.node.targets)
        if any(
            side_effects.environment_key(plan.facts, one) == side_effects.VISIBLE for one in targets
        ):
            edits.note(
                site,
                "CUDA_VISIBLE_DEVICES is for the launcher to set: it hides GPUs from ranks here",
                rule="cuda-visible-devices-in-script",
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
    edits.note(
        site, "the rank's device is set when the process group starts", rule="hard-coded-device"
    )


def _stay_on_device(edits: Edits, site: Site) -> None:
    """Within ``torch.cuda.device(-1)`` the rank's own device stays the current one."""
    assert isinstance(site.node, cst.Call)
    if site.node.args:
        edits.put(site.node.args[0].value, "-1")
        edits.note(
            site, "the rank's device is set when the process group starts", rule="hard-coded-device"
        )
