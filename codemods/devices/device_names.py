"""Names that hold an accelerator as text become the device of the rank where they are set.

Text that is handed on, as an argument or in an attribute, is followed through the functions of the
project. Where it is also printed or compared it stays text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Facts, Site
from ddpify.understanding.syntax import dotted, parameters
from ddpify.understanding.taint.call_graph import passed
from ddpify.understanding.taint.locations import Location, Locations
from ddpify.understanding.values import UNKNOWN, Bound, Class, Function

_KEYWORDS = ("device", "map_location")
_DISPLAYS = (cst.Element, cst.Tuple, cst.List, cst.StarredElement)


class DeviceNames:
    """Which names and attributes of a project's files hold a device that is set in one place."""

    def __init__(self, plan: Plan) -> None:
        self._facts: Facts = plan.facts
        self._entries = plan.project.entries
        self._locations = Locations(plan.facts, {file: file.structure for file in plan.editable})
        self._files = plan.editable

    @cached_property
    def _readers(self) -> dict[Location, list[Site]]:
        found: dict[Location, list[Site]] = defaultdict(list)
        for location, site, given in self._uses:
            if given is None:
                found[location].append(site)
        return found

    @cached_property
    def _values(self) -> dict[Location, list[cst.CSTNode]]:
        """What each is set to."""
        found: dict[Location, list[cst.CSTNode]] = defaultdict(list)
        for location, _, given in self._uses:
            if given is not None:
                found[location].append(given)
        return found

    @cached_property
    def _uses(self) -> list[tuple[Location, Site, cst.CSTNode | None]]:
        """Every name and attribute in the files, with what it is set to there, if it is."""
        sites = (Site(n, m) for m in self._files for n in m.structure.all(cst.Name, cst.Attribute))
        whole = [site for site in sites if not _is_part(site)]
        return [
            (location, site, _set_to(site)) for site in whole for location in self.locations(site)
        ]

    def locations(self, site: Site) -> list[Location]:
        """What a name or an attribute reads or sets."""
        if isinstance(site.node, cst.Name):
            return self._locations.of_name(site.node, site.module)[:1]
        if isinstance(site.node, cst.Attribute):
            return self._locations.of_attribute(site.node, site.module)
        return []

    def set_by(self, site: Site) -> set[Location]:
        """What ``place = "cuda:0"`` sets that is only ever read as a device; none if it is more."""
        node, module = site.node, site.module
        assert isinstance(node, cst.Assign)
        target = node.targets[0].target
        if len(node.targets) > 1 or not isinstance(target, cst.Name) or not _is_text(node.value):
            return set()
        (location,) = self.locations(Site(target, module))
        alone = module in self._entries or module.function(node) is not None  # nobody imports it
        once = self._values[location] == [node.value] and bool(self._readers[location])
        return self._reached(location) if alone and once else set()

    def _reached(self, start: Location) -> set[Location]:
        """A slot and those that its device is handed on to, where nothing else reads it."""
        found, todo, handed_on = {start}, [start], set[cst.CSTNode]()
        while todo:
            for reader in self._readers[todo.pop()]:
                further = self._handed_on(reader)
                if further is None:
                    return set()
                handed_on |= {reader.node} if further else set()
                todo += [location for location in further if location not in found]
                found |= set(further)
        others = found - {start}
        return found if all(self._given(location) <= handed_on for location in others) else set()

    def _handed_on(self, reader: Site) -> list[Location] | None:
        """What a reading hands the device on to; None where it reads it as something else."""
        node, module = reader.node, reader.module
        parent = module.parents[node]
        if isinstance(parent, cst.Assign):
            targets = [Site(one.target, module) for one in parent.targets]
            return [location for target in targets for location in self.locations(target)] or None
        call = module.parents.get(parent)
        if not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call):
            return None
        functions = list(_called(self._facts, call))
        if not functions:
            return [] if _is_device(call, parent) else None
        names = [_parameter(function, skipped, call, parent) for function, skipped in functions]
        known = zip(functions, names, strict=True)
        locations: list[Location] = [("name", f.node, name) for (f, _), name in known if name]
        return locations if len(locations) == len(functions) else None

    def _given(self, location: Location) -> set[cst.CSTNode]:
        """All that comes to a slot: what is assigned to it, and a parameter's arguments."""
        owner, given = location[1], set(self._values[location])
        if not isinstance(owner, (cst.FunctionDef, cst.Lambda)):
            return given
        for parameter in (p for p in parameters(owner) if p.name.value == location[2]):
            for site in self._facts.callers.get(owner, ()):
                assert isinstance(site.node, cst.Call)
                shown = _argument(self._facts, site.node, owner, parameter)
                given |= {shown} if shown is not None else set()
        return given


def _is_part(site: Site) -> bool:
    """Whether a name stands for no value: an attribute's, a keyword's or a parameter's own."""
    parent, node = site.module.parents[site.node], site.node
    if isinstance(parent, cst.Attribute):
        return parent.attr is node
    if isinstance(parent, cst.Arg):
        return parent.keyword is node
    return isinstance(parent, (cst.Param, cst.FunctionDef, cst.ClassDef)) and parent.name is node


def _set_to(site: Site) -> cst.CSTNode | None:
    """What a name or an attribute is set to here, None where it is read."""
    parents, node = site.module.parents, site.node
    whole = parents[node]
    while isinstance(whole, _DISPLAYS):
        node, whole = whole, parents[whole]
    if isinstance(whole, cst.AssignTarget):
        assignment = parents[whole]
        alone = node is site.node and isinstance(assignment, cst.Assign)
        return assignment.value if alone else whole  # type: ignore[attr-defined]
    targets = (cst.For, cst.CompFor, cst.AugAssign, cst.AnnAssign, cst.NamedExpr)
    bound = isinstance(whole, targets) and whole.target is node
    return whole if bound or isinstance(whole, (cst.AsName, cst.Del)) else None


def _is_text(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.IfExp):
        return _is_text(node.body) and _is_text(node.orelse)
    return isinstance(node, cst.SimpleString)


def _is_device(call: cst.Call, argument: cst.Arg) -> bool:
    """Whether an argument stands where PyTorch takes a device."""
    if argument.keyword is not None:
        return argument.keyword.value in _KEYWORDS
    moved = isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"
    return call.args[0] is argument and (moved or dotted(call.func) == "torch.device")


def _called(facts: Facts, call: cst.Call) -> Iterator[tuple[Function, int]]:
    """The project's functions that a call runs, and how many parameters come by themselves."""
    for atom in facts.values.get(call.func, UNKNOWN).atoms:
        if isinstance(atom, Function):
            yield atom, 0
        elif isinstance(atom, Bound):
            yield atom.function, 1
        elif isinstance(atom, Class):
            found = atom.find("__init__") or UNKNOWN
            yield from ((f, 1) for f in found.of(Function))


def _parameter(function: Function, skipped: int, call: cst.Call, argument: cst.Arg) -> str | None:
    """The name of the parameter that an argument is for; None where that is not known."""
    known = {p.name.value for p in parameters(function.node)}
    found = (name for one, name in passed(function, skipped, call) if one is argument)
    return next((name for name in found if name in known), None)


def _argument(
    facts: Facts, call: cst.Call, owner: cst.CSTNode, parameter: cst.Param
) -> cst.BaseExpression | None:
    """What a call gives a parameter: the default where it leaves it, the call where it is unknown.

    A default of None or of text that names no accelerator is nothing.
    """
    for function, skipped in _called(facts, call):
        if function.node is owner:
            for one in call.args:
                if one.star:
                    return call
                if _parameter(function, skipped, call, one) == parameter.name.value:
                    return one.value
    shown = parameter.default
    unset = isinstance(shown, cst.Name) and shown.value == "None"
    cpu = isinstance(shown, cst.SimpleString) and shown.evaluated_value == "cpu"
    return None if unset or cpu else shown
