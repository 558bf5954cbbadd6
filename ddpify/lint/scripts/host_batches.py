"""What of a loader's batches surely stays in host memory in a loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.datasets import datasets
from ddpify.lint.scripts.generators import passed_through
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.object_kinds import BARS
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Class, Const, Function, Instance, Value

_LOADER = "torch.utils.data.DataLoader"
_LOADERS = frozenset({_LOADER, *BARS})
_ITERATES = frozenset({"builtins.enumerate", "tqdm.tqdm"})
_READS = frozenset({"size", "shape", "dim", "float", "long", "view", "reshape", "squeeze"})


class HostBatches:
    """The names of one loop that hold a batch, or parts of one, as the loader made it."""

    def __init__(self, script: Script, loop: cst.For) -> None:
        """Follow what the loop takes from its loader."""
        self._script, self._loop = script, loop
        self._loaders = script.loaders_in(loop.iter)
        self.names: set[str] = set()
        if _goes_over_loader(script, loop.iter) and not any(map(self._moves, self._loaders)):
            self.names = set(_names(_batch(loop.target, loop.iter)))
            self._follow()

    @property
    def are_seen(self) -> bool:
        """Whether all data sets are seen, none of which knows a device."""
        return all(datasets(loader) for loader in self._loaders)

    def holds(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a batch in host memory, an item of it, or a view of that."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            return node.func.attr.value in _READS and self.holds(node.func.value)
        if isinstance(node, cst.Subscript):
            return self.holds(node.value)
        return isinstance(node, cst.Name) and node.value in self.names

    def _follow(self) -> None:
        """Take up what is unpacked; leave out what is set anew or handed to unknown code."""
        for target, source in self._set():
            if self.holds(source) and not isinstance(target, cst.Subscript):
                self.names |= set(_names(target))
        self.names -= set(self._changed())

    def _set(self) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
        """What the loop's assignments set, and to what; those of several names one by one."""
        for node in self._script.structure.below(self._loop.body):
            if isinstance(node, cst.Assign):
                for one in node.targets:
                    yield from _pairs(one.target, node.value)

    def _changed(self) -> Iterator[str]:
        for target, source in self._set():
            if not self.holds(source):
                yield from _names(target)
        for node in self._script.structure.below(self._loop.body):
            if isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)):
                yield from _names(node.target)
            elif isinstance(node, cst.Call) and self._is_unknown(node):
                for given in node.args:
                    if isinstance(given.value, cst.Name):
                        yield given.value.value

    def _is_unknown(self, call: cst.Call) -> bool:
        """Whether a call may move what it is given in place: no library's function or module."""
        return not self._script.names(call.func) and not self._script.instances(call.func)

    def _moves(self, loader: Instance) -> bool:
        """Whether a loader's own code may put batches on a device."""
        if loader.type != _LOADER or not _stays_on_host(loader.arguments.get("collate_fn")):
            return True
        return any(map(_knows_devices, datasets(loader)))


def _goes_over_loader(script: Script, node: cst.BaseExpression) -> bool:
    """``loader``, or ``enumerate(tqdm(loader))``: what else stands there may move the batches."""
    if isinstance(node, cst.Call) and script.names(node.func) & _ITERATES and node.args:
        return _goes_over_loader(script, node.args[0].value)
    if isinstance(node, cst.Call) and not script.names(node.func):
        given = passed_through(script, node)
        return given is not None and _goes_over_loader(script, given)
    held = script.value(node).atoms
    return bool(held) and all(isinstance(a, Instance) and a.type in _LOADERS for a in held)


def _batch(target: cst.BaseExpression, iterated: cst.BaseExpression) -> cst.BaseExpression:
    """The part of a loop's target that gets the batch: ``enumerate()`` puts a number before it."""
    counted = isinstance(iterated, cst.Call) and code_of(iterated.func) == "enumerate"
    if counted and isinstance(target, cst.Tuple) and len(target.elements) == 2:
        return target.elements[1].value
    return target


def _names(node: cst.CSTNode) -> Iterator[str]:
    """The names that a target sets, or changes by an item."""
    if isinstance(node, cst.Name):
        yield node.value
    elif isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _names(element.value)
    elif isinstance(node, (cst.Subscript, cst.StarredElement)):
        yield from _names(node.value)


def _pairs(
    target: cst.BaseExpression, source: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """``x, y = a, b`` as two assignments."""
    if not isinstance(target, cst.Tuple) or not isinstance(source, cst.Tuple):
        yield target, source
    elif len(target.elements) == len(source.elements):
        for left, right in zip(target.elements, source.elements, strict=True):
            yield left.value, right.value


def _stays_on_host(collate: Value | None) -> bool:
    """Whether there is no collate function, or one in sight that has nothing to do with devices."""
    return collate is None or (
        bool(collate.atoms)
        and all(
            (isinstance(one, Const) and one.value is None)
            or (isinstance(one, Function) and not _speaks_of_devices(one.node))
            for one in collate.atoms
        )
    )


def _speaks_of_devices(node: cst.CSTNode) -> bool:
    words = {one.value for one in walk(node) if isinstance(one, cst.Name)}
    return bool(words & {"to", "cuda", "device"})


def _knows_devices(dataset: Instance) -> bool:
    """Whether a data set's class, or what it is made with, has anything to do with devices."""
    if isinstance(dataset.type, Class):
        return _speaks_of_devices(dataset.type.node)
    inner = [atom for held in dataset.arguments.values() for atom in held.atoms]
    if any(isinstance(one, Instance) and _knows_devices(one) for one in inner):
        return True
    return "device" in dataset.arguments or ".cuda(" in code_of(dataset.site)
