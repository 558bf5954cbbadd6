"""Collections whose order differs between processes or machines, and where that order counts.

A set of strings has another order in each process, a folder's listing on each machine. It matters
where numbers are given out along it, or where it becomes the order of a data set or of layers.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.libraries.path_objects import PATH
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import UNPACKED
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.flow import Flow
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.reaching_definitions import reaching_definition
from ddpify.understanding.values import UNKNOWN, Class, Function, Instance

_SETS = ("builtins.set", "builtins.frozenset")
_FOLDERS = ("os.listdir", "os.scandir", "glob.glob", "glob.iglob")
_PATH_METHODS = ("iterdir", "glob", "rglob")
_SET_METHODS = ("union", "difference", "intersection", "symmetric_difference", "copy")
_SAME_ORDER = frozenset(
    f"builtins.{name}" for name in "list tuple iter reversed filter map enumerate".split()
)
_NUMBERS = ("builtins.range", "numpy.arange", "torch.arange", "torch.randperm")
_LAYERS = ("torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.Sequential", "torch.optim.")
_DATASETS = ("torch.utils.data.Dataset", "torch.utils.data.dataset.Dataset")
_DEPTH = 12
Comprehension = (cst.ListComp, cst.DictComp, cst.GeneratorExp, cst.SetComp)


class Ordering:
    """What one project does along an order that is not fixed; listings of folders on request
    alone: processes of one machine see them in one order.
    """

    def __init__(
        self,
        facts: Facts,
        structures: dict[ModuleFile, Structure],
        flow: Flow,
        *,
        listings: bool = True,
    ) -> None:
        self.facts, self.structures, self.flow = facts, structures, flow
        self._listings = listings
        self._known: dict[cst.CSTNode, bool] = {}

    def on_one_machine(self) -> Ordering:
        """The same of processes that see the same folders."""
        return Ordering(self.facts, self.structures, self.flow, listings=False)

    # ------------------------------------------------------------------ collections
    def is_unordered(self, node: cst.CSTNode, module: ModuleFile, depth: int = _DEPTH) -> bool:
        """Whether an expression surely is a collection without an order of its own."""
        if node not in self._known:
            self._known[node] = False  # for what refers to itself
            self._known[node] = depth > 0 and self._look(node, module, depth - 1)
        return self._known[node]

    def _look(self, node: cst.CSTNode, module: ModuleFile, depth: int) -> bool:
        if isinstance(node, cst.Set):
            return not all(isinstance(one.value, cst.Integer) for one in node.elements)
        if isinstance(node, cst.SetComp):
            return not self._numbers(node.for_in.iter)
        if isinstance(node, Comprehension):
            return self.is_unordered(node.for_in.iter, module, depth)
        if isinstance(node, cst.Call):
            return self._call(node, module, depth)
        if isinstance(node, cst.BinaryOperation):
            return self.is_unordered(node.left, module, depth)
        if isinstance(node, (cst.Name, cst.Attribute)):
            return self._held(node, module, depth)
        return False

    def _call(self, node: cst.Call, module: ModuleFile, depth: int) -> bool:
        names = self._names(node.func)
        given = [one.value for one in node.args]
        if any(name in _SETS for name in names):
            return not any(map(self._numbers, given))
        if any(name in _FOLDERS for name in names):
            return self._listings
        if any(name in _SAME_ORDER for name in names):
            return bool(given) and self.is_unordered(given[-1], module, depth)
        functions = list(called(self.facts, node))
        if functions:
            return all(self._returns(one, depth) for one in functions)
        return self._method(node, module, depth)

    def _method(self, node: cst.Call, module: ModuleFile, depth: int) -> bool:
        if not isinstance(node.func, cst.Attribute):
            return False
        name = node.func.attr.value
        if name in _SET_METHODS:
            return self.is_unordered(node.func.value, module, depth)
        held = self.facts.values.get(node.func.value, UNKNOWN).atoms
        paths = [a for a in held if isinstance(a, Instance) and a.type == PATH]
        return name in _PATH_METHODS and bool(paths) and self._listings

    def _returns(self, function: Function, depth: int) -> bool:
        edges = self.flow.edges_into({("result", function.node)})
        sources = [edge.value for edge in edges]
        return bool(sources) and all(
            one is not None and self.is_unordered(one, function.module, depth) for one in sources
        )

    def _held(self, node: cst.Name | cst.Attribute, module: ModuleFile, depth: int) -> bool:
        """Whether a name only ever gets such collections, and nothing sorts it in place."""
        locations = self.flow.locations(node, module)
        if isinstance(node, cst.Attribute):
            locations = set(self.flow.names.of_target(node, module))
        if not locations or locations & self._sorted_locations or len(locations) > 1:
            return False
        edges = self.flow.edges_into(locations)
        set_to = [edge for edge in edges if not _adds(edge)]
        last = reaching_definition(self.structures[module], node, [edge.node for edge in set_to])
        if last is not None:  # what the name stood for before is gone
            set_to = [edge for edge in set_to if edge.node is last]
            order = self.structures[module].order
            edges = [edge for edge in edges if order.get(edge.node, order[last]) >= order[last]]
        if not set_to or any(isinstance(m.node, (cst.For, cst.CompFor)) for m in set_to):
            return False
        if any(self._along(edge.node, depth) for edge in edges if _adds(edge)):
            return True
        return all(
            edge.value is not None and self.is_unordered(edge.value, self._file(edge.node), depth)
            for edge in set_to
        )

    def _along(self, node: cst.CSTNode, depth: int) -> bool:
        """Whether ``append`` and the like stand in a loop over such a collection."""
        module = self._file(node)
        return any(
            isinstance(loop, cst.For) and self.is_unordered(loop.iter, module, depth)
            for loop in self.structures[module].loops(node)
        ) and isinstance(node, cst.Call)

    @property
    def _sorted_locations(self) -> set[Location]:
        """The slots of what is sorted in place."""
        known = self.__dict__.get("_sorted")
        if known is None:
            known = self.__dict__["_sorted"] = {
                location
                for module, structure in self.structures.items()
                for call in structure.all(cst.Call)
                if isinstance(call.func, cst.Attribute) and call.func.attr.value == "sort"
                for location in self.flow.names.of_target(call.func.value, module)
            }
        return known

    def _numbers(self, node: cst.CSTNode) -> bool:
        """Whether a collection is made of numbers, whose sets have one order everywhere."""
        if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
            return all(isinstance(one.value, cst.Integer) for one in node.elements)
        if not isinstance(node, cst.Call):
            return False
        listed = isinstance(node.func, cst.Attribute) and node.func.attr.value == "tolist"
        return listed or any(name in _NUMBERS for name in self._names(node.func))

    def _names(self, node: cst.CSTNode) -> list[str]:
        return list(library_names(self.facts.values.get(node)))

    def _file(self, node: cst.CSTNode) -> ModuleFile:
        return next(file for file, s in self.structures.items() if node in s.order)

    # ------------------------------------------------------------------ where it counts
    def counted(self, module: ModuleFile) -> Iterator[cst.BaseExpression]:
        """The collections of a file along whose order numbers, samples or layers are laid out."""
        structure = self.structures[module]
        for node in structure.all(*Comprehension):
            source = self._numbered(node.for_in.iter) or self._layered(structure, node)
            if source is not None and self.is_unordered(source, module):
                yield source
        for call in structure.all(cst.Call):
            source = self._listed(call)
            if source is not None and self.is_unordered(source, module):
                yield source
        for loop in structure.all(cst.For):
            source = self._numbering_loop(structure, loop)
            if source is not None and self.is_unordered(source, module):
                yield source
        yield from self._samples(module)

    def _numbered(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """``x`` of ``enumerate(x)``."""
        if isinstance(node, cst.Call) and "builtins.enumerate" in self._names(node.func):
            return node.args[0].value if node.args else None
        return None

    def _layered(self, structure: Structure, node: cst.CSTNode) -> cst.BaseExpression | None:
        """What a comprehension in the arguments of a container of layers goes over."""
        for above in structure.up(node):
            if isinstance(above, cst.Call):
                layers = any(name.startswith(_LAYERS) for name in self._names(above.func))
                return node.for_in.iter if layers else None  # type: ignore[attr-defined]
            if isinstance(above, cst.BaseStatement):
                break
        return None

    def _listed(self, call: cst.Call) -> cst.BaseExpression | None:
        """``x`` of ``dict(enumerate(x))``, ``dict(zip(x, range(n)))`` and ``x.index(y)``."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "index":
            return None if any(map(self._is_extreme, call.args)) else call.func.value
        if not call.args or "builtins.dict" not in self._names(call.func):
            return None
        inner = call.args[0].value
        if isinstance(inner, cst.Call) and "builtins.zip" in self._names(inner.func):
            numbers = any(self._numbers(one.value) for one in inner.args)
            return inner.args[0].value if numbers else None
        return self._numbered(inner)

    def _is_extreme(self, given: cst.Arg) -> bool:
        """``x.index(max(x))``: where it stands finds the same one in lists of the same order."""
        value = given.value
        return isinstance(value, cst.Call) and bool(
            {"builtins.max", "builtins.min"} & {*self._names(value.func)}
        )

    def _numbering_loop(self, structure: Structure, loop: cst.For) -> cst.BaseExpression | None:
        """``x`` of a loop that stores numbers along ``x``: an index, a length or a counter."""
        source = self._numbered(loop.iter)
        counters = set(target_names(loop.target)) if source is not None else set()
        if isinstance(loop.target, UNPACKED) and source is not None:
            counters = set(target_names(loop.target.elements[0].value))
        for one in structure.inside(loop.body, cst.AugAssign):
            if isinstance(one.operator, cst.AddAssign):
                counters |= set(target_names(one.target))
        stores = structure.inside(loop.body, cst.Assign)
        if any(self._stores_number(one, counters) for one in stores):
            return source if source is not None else loop.iter
        return None

    def _stores_number(self, statement: cst.Assign, counters: set[str]) -> bool:
        """``d[word] = i`` or ``d[word] = len(d)``."""
        if not any(isinstance(one.target, cst.Subscript) for one in statement.targets):
            return False
        given = statement.value
        if isinstance(given, cst.Call):
            return "builtins.len" in self._names(given.func)
        return isinstance(given, cst.Name) and given.value in counters

    def _samples(self, module: ModuleFile) -> Iterator[cst.BaseExpression]:
        """Lists that a data set keeps."""
        structure = self.structures[module]
        for statement in structure.all(cst.Assign):
            target = statement.targets[0].target
            if not isinstance(target, cst.Attribute) or not self._is_dataset(target.value):
                continue
            in_order = set(self.flow.names.of_target(target, module)) & self._sorted_locations
            kept = not in_order and self._is_list(statement.value)
            if kept and self.is_unordered(statement.value, module):
                yield statement.value

    def _is_dataset(self, node: cst.BaseExpression) -> bool:
        return any(
            isinstance(a, Instance)
            and isinstance(a.type, Class)
            and any(base in _DATASETS for base in a.type.library_bases())
            for a in self.facts.values.get(node, UNKNOWN).atoms
        )

    def _is_list(self, node: cst.BaseExpression) -> bool:
        """Whether a collection is kept as a list: a set is for asking what is in it."""
        if isinstance(node, cst.Call):
            return not any(name in _SETS for name in self._names(node.func))
        return not isinstance(node, (cst.Set, cst.SetComp))


def _adds(edge: FlowEdge) -> bool:
    """``x.append(...)``, ``x.update(...)`` or ``x |= ...``, not what sets ``x``."""
    called = isinstance(edge.node, cst.Call) and not edge.passes
    return called or isinstance(edge.node, cst.AugAssign)
