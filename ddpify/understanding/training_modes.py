"""Whether models are in training mode where the script calls them.

``train()`` and ``eval()`` hold until the next of them. So a call goes by the last one in its
function that surely runs before it, and by all that may run in between; where there is none, by the
mode in which that function is called. A model is made in training mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.facts import Facts, Site, Switch
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.values import Instance

Found = frozenset[bool]
_Code = tuple[ModuleFile, cst.FunctionDef | None]  # a function, or a file outside of functions
_TRAINING, _BOTH = frozenset({True}), frozenset({True, False})


class Layers:
    """What each model holds, at any depth. It only grows: what was held once needs no look."""

    def __init__(self) -> None:
        self._known: dict[Instance, dict[Instance, int]] = {}  # and how far each had grown

    def holds(self, outer: Instance, model: Instance) -> bool:
        """Whether one model is another, or a layer of it."""
        known = self._known.setdefault(outer, {outer: -1})
        if model in known:
            return True
        todo = [one for one, growth in known.items() if one.growth != growth]
        while todo:
            one = todo.pop()
            known[one] = one.growth
            new = dict.fromkeys(part for part in one.parts() if part not in known)
            known |= dict.fromkeys(new, -1)
            todo += new
        return model in known


@dataclass(eq=False, repr=False, slots=True)
class Modes:
    """What a pass has answered about the modes of models."""

    answers: dict[tuple[Site, Instance, bool | None], Found] = field(default_factory=dict)
    layers: Layers = field(default_factory=Layers)
    # By the switches of a model; to be forgotten where a function has got another caller.
    searches: dict[tuple[Switch, ...], _Search] = field(default_factory=dict)

    def at(
        self, facts: Facts, site: Site, model: Instance, entered: bool | None = None
    ) -> bool | None:
        """Whether a model is in training mode at a place; None where it may be either.

        entered: the mode in which the call in progress has entered the function of that place, as
        far as it is known.
        """
        found = self._found(facts, site, model, entered)
        self.answers[site, model, entered] = found
        return next(iter(found)) if len(found) == 1 else None

    def outdated(self, facts: Facts) -> bool:
        """Whether an answer of this pass would be another one now."""
        return any(self._found(facts, *asked) != found for asked, found in self.answers.items())

    def _found(self, facts: Facts, site: Site, model: Instance, entered: bool | None) -> Found:
        own = tuple(
            switch
            for held, switches in facts.switches.items()
            if self.layers.holds(held, model)
            for switch in switches.values()
        )
        search = self.searches.get(own)
        if search is None:
            search = self.searches[own] = _Search(facts, own)
        return search.found(site, entered)


def switch(facts: Facts, site: Site, model: Instance, mode: object, *, surely: bool) -> None:
    """Note ``model.train(mode)``; it may be another model where it is not surely this one."""
    held = facts.switches.setdefault(model, {})
    modes = frozenset({mode}) if isinstance(mode, bool) else _BOTH
    known = held.get(site, Switch(site, modes, surely))
    held[site] = Switch(site, modes | known.modes, surely and known.surely)


class _Search:
    """The modes of models with the same switches, through the functions that call each other."""

    def __init__(self, facts: Facts, own: tuple[Switch, ...]) -> None:
        self.callers = facts.callers
        self.own = own
        self.switches: dict[_Code, list[Switch]] = {}
        inside = [Switch(site, modes) for site, modes in self._inside_calls().items()]
        for one in (*self.own, *inside):
            self.switches.setdefault(_code(one.site), []).append(one)
        self._answers: dict[tuple[Site, bool | None], Found] = {}
        # Of a place: the modes that its own function leads to, and the calls of it that count, too.
        self._known: dict[tuple[Site, bool | None], tuple[Found, Sequence[Site]]] = {}

    def found(self, site: Site, entered: bool | None) -> Found:
        """The modes in which the model may be when a place is reached: looked for once."""
        asked = site, entered
        if asked not in self._answers:
            self._answers[asked] = self.at(site, entered)
        return self._answers[asked]

    def _inside_calls(self) -> dict[Site, Found]:
        """The modes that the calls of functions may leave the model in."""
        left: dict[cst.CSTNode | None, Found] = {}
        found: dict[Site, Found] = {}
        todo = [(switch.site, switch.modes) for switch in self.own]
        while todo:
            site, modes = todo.pop()
            function = _function(site)
            if function is None or modes <= left.get(function, frozenset()):
                continue
            left[function] = left.get(function, frozenset()) | modes
            for call in self.callers.get(function, ()):
                found[call] = left[function]
                todo.append((call, left[function]))
        return found

    def at(self, site: Site, entered: bool | None = None) -> Found:
        """The modes in which the model may be when a place is reached: each call is gone up once.

        entered: the mode in which its function is entered; None goes by all calls of that.
        """
        found, calls = self._here(site, entered)
        seen, todo = {site}, [*calls]
        while todo:
            call = todo.pop()
            if call not in seen:
                seen.add(call)
                modes, further = self._here(call, None)
                found |= modes
                todo += further
        return found

    def _here(self, site: Site, entered: bool | None) -> tuple[Found, Sequence[Site]]:
        """The modes that a function's own code may leave, and the calls that it may start as."""
        asked = site, entered
        if asked not in self._known:
            here = self.switches.get(_code(site), [])
            last = max(
                (s for s in here if _is_meant(s, site) and _surely_before(s.site, site)),
                key=lambda s: _order(s.site),
                default=None,
            )
            between = [s for s in here if s is not last and _may_run(s.site, last, site)]
            left = [s.modes for s in between if not any(_undoes(o, s.site, site) for o in here)]
            start, calls = self._start(site, last, entered)
            self._known[asked] = start.union(*left), calls
        return self._known[asked]

    def _start(
        self, site: Site, last: Switch | None, entered: bool | None
    ) -> tuple[Found, Sequence[Site]]:
        """The modes before all that may run in between, or the calls that tell them."""
        if last is not None:
            return last.modes, ()
        if entered is not None:
            return frozenset({entered}), ()
        function = _function(site)
        if function is None:
            return _TRAINING, ()
        calls = tuple(self.callers.get(function, ()))
        return (frozenset(), calls) if calls else (_BOTH, ())


def _code(site: Site) -> _Code:
    """The function that a place is in, or the file where it is in none."""
    return site.module, _function(site)


def _function(site: Site) -> cst.FunctionDef | None:
    return site.module.structure.function(site.node)


def _order(site: Site) -> int:
    return site.module.structure.order[site.node]


def _surely_before(switch: Site, site: Site) -> bool:
    """Whether a place is reached only after a switch."""
    return _order(switch) < _order(site) and _runs_with(switch, site)


def _is_meant(switch: Switch, site: Site) -> bool:
    """Whether what is called at a place is surely what a switch was for.

    Where a name may stand for several models, it still stands for the one that it stood for there.
    """
    name = _called_name(switch.site.node)
    if switch.surely or not name or name != _called_name(site.node):
        return switch.surely
    structure = site.module.structure
    order, start, end = structure.order, _order(switch.site), _order(site)
    around = set(structure.loops(site.node)) - set(structure.loops(switch.site.node))
    return not any(
        start < order[node] < end or around.intersection(structure.loops(node))
        for node in site.module.parsed.scopes.bound.get(name, ())
    )


def _called_name(node: cst.CSTNode) -> str:
    """``m`` of ``m(x)`` and of ``m.train()``; empty for other calls."""
    func = node.func if isinstance(node, cst.Call) else None
    owner = func.value if isinstance(func, cst.Attribute) else func
    return owner.value if isinstance(owner, cst.Name) else ""


def _undoes(other: Switch, switch: Site, site: Site) -> bool:
    """Whether after one switch another surely follows, before the place is reached."""
    if not _is_meant(other, site):
        return False
    start, end = _order(switch), _order(other.site)
    if end <= start or start < _order(site) < end:
        return False
    loops = site.module.structure.loops
    back = [loop for loop in loops(site.node) if loop in loops(switch.node)]
    in_time = all(loop in loops(other.site.node) for loop in back)
    return in_time and _runs_with(other.site, switch)


def _runs_with(switch: Site, site: Site) -> bool:
    """Whether a switch is in no branch and in no loop that a place is not in, too."""
    structure = site.module.structure
    tests = {(guard.test, guard.positive) for guard in structure.guards(site.node)}
    loops = structure.loops(site.node)
    return all((g.test, g.positive) in tests for g in structure.guards(switch.node)) and all(
        loop in loops for loop in structure.loops(switch.node)
    )


def _may_run(switch: Site, last: Switch | None, site: Site) -> bool:
    """Whether a switch may run between the last sure one and the place, or a round before it."""
    structure = site.module.structure
    start = _order(last.site) if last is not None else -1
    if start < _order(switch) < _order(site):
        return True
    around = structure.loops(last.site.node) if last is not None else []
    again = [loop for loop in structure.loops(site.node) if loop not in around]
    return any(loop in again for loop in structure.loops(switch.node))
