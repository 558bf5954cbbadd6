"""Files that ``torch.load`` reads a model from: its state, or all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.flow import Flow
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import UNKNOWN, Class, Instance

_TAKES_STATE = "load_state_dict"
_OPTIMIZERS = "torch.optim."
_LITERALS = (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString)
_SAME_OBJECT = ("to", "cuda", "cpu", "eval", "train", "float", "half")


class Checkpoints:
    """The loads of one project; data and vocabularies are none of them."""

    def __init__(self, facts: Facts, flow: Flow) -> None:
        self.facts = facts
        self.flow = flow

    def is_state(self, load: cst.Call, module: ModuleFile) -> bool:
        """Whether what is loaded goes, at once or by a name, into ``load_state_dict``."""
        for above in module.structure.up(load):
            if isinstance(above, cst.Call) and _method(above) == _TAKES_STATE:
                return True
            if isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Tuple):
                return False  # data, _ = torch.load(f)
            if isinstance(above, (cst.Assign, cst.AnnAssign, cst.Return)):
                return any(self._states & {*edge.targets} for edge in self.flow.edges_at(above))
            if isinstance(above, cst.BaseStatement):
                break
        return False

    def is_model(self, load: cst.Call, module: ModuleFile) -> bool:
        """Whether a load gives a model itself, which is called or trained."""
        for above in module.structure.up(load):
            if isinstance(above, cst.Assign):
                given = _same_object(above.value) is load
                return given and any(self._models & {*m.targets} for m in self.flow.edges_at(above))
            if isinstance(above, cst.BaseStatement):
                break
        return False

    @cached_property
    def _states(self) -> set[Location]:
        """Names from which a ``load_state_dict`` gets its state."""
        return self._leading_to(
            location
            for call, module in self._calls(_TAKES_STATE)
            for given in call.args
            for location in self.flow.locations(given.value, module)
        )

    def _leading_to(self, locations: Iterable[Location], *, whole: bool = False) -> set[Location]:
        """Names with those that they get what they hold from; ``whole``: which hold the same."""
        todo = list(locations)
        found = set(todo)
        while todo:
            edges = self.flow.edges_into({todo.pop()})
            if whole:
                edges = [edge for edge in edges if not self._makes(edge.value)]
            sources = (edge.source for edge in edges if not self._is_load(edge.value))
            fresh = {
                d.location for source in sources for d in source if d.location is not None
            } - found
            found |= fresh
            todo += fresh
        return found

    def _makes(self, node: cst.BaseExpression | None) -> bool:
        """Whether a call makes an object, of which its arguments are no more than a part."""
        made = self.facts.values.get(node, UNKNOWN) if isinstance(node, cst.Call) else UNKNOWN
        return any(isinstance(a, Instance) and a.site is node for a in made.atoms)

    def _is_load(self, node: cst.BaseExpression | None) -> bool:
        """Whether a file gives this: what its name is made of is no part of it."""
        node = _same_object(node) if node is not None else None
        held = self.facts.values.get(node.func) if isinstance(node, cst.Call) else None
        return "torch.load" in library_names(held)

    @cached_property
    def _models(self) -> set[Location]:
        """Names of what is called on a value, or trained by an optimizer: data is neither."""
        used = [site for _, site in self.facts.calls_to(_OPTIMIZERS)]
        trained = [(part, site.module) for site in used for part in _asked_of(site.node)]
        called = [
            (call.func, module)
            for module, structure in self.flow.structures.items()
            for call in structure.all(cst.Call)
            if self._holds(call.func)
            if any(not isinstance(given.value, _LITERALS) for given in call.args)
        ]
        found = [self.flow.locations(node, module) for node, module in (*trained, *called)]
        return self._leading_to(set().union(*found), whole=True)

    def _holds(self, called: cst.BaseExpression) -> bool:
        """Whether what is called is held by a name or an object, and is no method of something."""
        if not isinstance(called, cst.Attribute) or isinstance(called.value, cst.Call):
            return isinstance(called, cst.Name)
        owner = self.facts.values.get(called.value, UNKNOWN)
        return any(isinstance(a, Instance) and isinstance(a.type, Class) for a in owner.atoms)

    def _calls(self, *methods: str) -> Iterator[tuple[cst.Call, ModuleFile]]:
        for module, structure in self.flow.structures.items():
            for call in structure.all(cst.Call):
                if _method(call) in methods:
                    yield call, module


def _asked_of(optimizer: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What an optimizer's arguments ask for something: ``net`` of ``net.parameters()``."""
    for node in walk(optimizer):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            yield node.func.value


def _method(call: cst.Call) -> str | None:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else None


def _same_object(node: cst.BaseExpression) -> cst.BaseExpression:
    """The object that ``x.to(device).eval()`` and the like give back."""
    while (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and _method(node) in _SAME_OBJECT
    ):
        node = node.func.value
    return node
