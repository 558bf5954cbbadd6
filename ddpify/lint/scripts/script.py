"""One script as the rules see it."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache, cached_property
from typing import TypeVar, cast

import libcst as cst

from ddpify.lint.scripts import doubts, partial_reads
from ddpify.lint.scripts.control import Control
from ddpify.lint.scripts.conversion_steps import Step, steps_of
from ddpify.lint.scripts.partial_reads import Part
from ddpify.lint.scripts.positions import Positions
from ddpify.lint.scripts.sharded_values import Reading
from ddpify.understanding.libraries.distributed import REDUCING
from ddpify.understanding.model_structure import layers
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import content, dotted
from ddpify.understanding.taint.call_graph import called, initialisers
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Instance, Params

Found = TypeVar("Found")

# What is known of the file that is read, not of all files together.
_OF_THE_FILE = ("structure", "_trains", "works_on_parts", "parts", "steps")
# What does not depend on how strictly a script is read.
_OF_THE_RUN = ("source", "project", "module", "choices", "facts", "positions")


class Script(Reading):
    """A file that is read, with the control flow in it and what convert would do."""

    def read_for(self, module: ModuleFile) -> Script:
        """The same run with the rules' eyes on another of its files."""
        made = copy(self)
        for name in _OF_THE_FILE:
            made.__dict__.pop(name, None)
        made.__dict__["kind"] = self.kind
        made.source, made.module, made.positions = module.source, module, Positions(module)
        return made

    def take_over(self, other: Script) -> None:
        """Know of the run what was found out while another of its files was read."""
        for name, found in other.__dict__.items():
            if name not in _OF_THE_FILE:
                self.__dict__.setdefault(name, found)

    def read_with(self, *, strict: bool) -> Script:
        """The same run, read strictly or not: strict reading reports what is possible, too."""
        if strict == self.strict:
            return self
        other = self._read_otherwise
        return other if other.module is self.module else other.read_for(self.module)

    @cached_property
    def _read_otherwise(self) -> Script:
        """The same run, read strictly where this is not."""
        made = copy(self)
        made.__dict__.clear()
        made.__dict__.update({name: self.__dict__[name] for name in _OF_THE_RUN})
        made.strict = not self.strict
        return made

    def once(self, asked: Callable[[Script], Found]) -> Found:
        """What a function says of the run, whichever of its files is read; asked once."""
        if asked not in self._answers:
            self._answers[asked] = asked(self)
        return cast("Found", self._answers[asked])

    @cached_property
    def _answers(self) -> dict[Callable[[Script], object], object]:
        return {}

    @cached_property
    def control(self) -> Control:
        """Under which conditions code runs."""
        return Control(self)

    def may_be_guarded(self, node: cst.CSTNode) -> bool:
        """Whether anything unknown may keep a node from running on every rank."""
        return doubts.may_be_guarded(self.control, node)

    @cached_property
    def works_on_parts(self) -> bool:
        """Whether anything in sight is shared out among ranks: a training, data, a result."""
        if self.facts.backwards or self.control.spawned or self.has_runtime:
            return True
        if any(map(self.gives_parts, self.facts.loaders)):
            return True
        if any(self.control.asks_rank(one.test) for one in self.structure.all(cst.If, cst.IfExp)):
            return True
        return self.uses(*REDUCING)

    @cached_property
    def parts(self) -> list[Part]:
        """What a script with ddpify's runtime reads although a rank holds a part of it."""
        return partial_reads.parts(self)

    @cached_property
    def mentions(self) -> dict[str, list[cst.CSTNode]]:
        """By its name or text, the places of an attribute or string in all files of the run.

        An assignment to an attribute stands for its target.
        """
        found: dict[str, list[cst.CSTNode]] = {}
        for structure in self.structures.values():
            for node in structure.all(cst.Attribute):
                above = structure.parents.get(node)
                target = isinstance(above, cst.AssignTarget)
                place = structure.parents[above] if target and above else node
                found.setdefault(node.attr.value, []).append(place)
            for text in structure.all(cst.SimpleString):
                found.setdefault(str(content(text)), []).append(text)
        return found

    @cached_property
    def replaces_print(self) -> bool:
        """``builtins.print = print``: another one, which asks who the process is."""
        return any(
            dotted(target.target) in ("builtins.print", "__builtin__.print")
            for structure in self.structures.values()
            for one in structure.all(cst.Assign)
            for target in one.targets
        )

    def trains(self, node: cst.CSTNode) -> bool:
        """Whether a block reaches ``backward()``, where a graph is recorded."""
        return self._is_training(node)

    @cached_property
    def _is_training(self) -> Callable[[cst.CSTNode], bool]:
        """The same; found out once for each block, since many rules ask about the same loops."""
        return cache(self._reaches_backward)

    def _reaches_backward(self, node: cst.CSTNode) -> bool:
        return any(one in self.facts.backwards or self._calls_training(one) for one in walk(node))

    def _calls_training(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, cst.Call):
            return False
        functions = [*called(self.facts, node), *initialisers(self.facts, node)]
        known = [one.node for one in functions if one.module in self.structures]
        return any(map(self._may_train, known)) and not self.control.without_grad(node)

    @cached_property
    def _may_train(self) -> Callable[[cst.CSTNode], bool]:
        """Whether a function reaches ``backward()`` in any way; found out once for each."""
        return cache(super().trains)

    def collectives(self, node: cst.CSTNode) -> list[tuple[str, cst.Call]]:
        """The collectives that a block runs, by name, also in the functions that it calls."""
        return self._collectives_in(node)

    @cached_property
    def _collectives_in(self) -> Callable[[cst.CSTNode], list[tuple[str, cst.Call]]]:
        """The same; found out once for each block."""
        return cache(super().collectives)

    @cached_property
    def layers(self) -> Callable[[Instance], frozenset[Instance]]:
        """A model and all modules that it holds; found out once for each model."""
        return cache(lambda model: frozenset(layers(model)))

    @cached_property
    def events_of_parts(self) -> Callable[[Instance, str], list[cst.CSTNode]]:
        """The places where something of a kind happens to parts of a model, found out once."""
        return cache(self._events_of_parts)

    def _events_of_parts(self, model: Instance, kind: str) -> list[cst.CSTNode]:
        parts = [part for part in layers(model) if part is not model]
        return [event.site.node for part in parts for event in self.events(part, kind)]

    @cached_property
    def parameters_in_loops(self) -> set[Location]:
        """What loops over the parameters of a model give to their names."""
        return {
            location
            for edge in self.flow.edges
            if isinstance(edge.node, cst.For) and any(self.value(edge.node.target).of(Params))
            for location in edge.targets
        }

    @cached_property
    def training_loaders(self) -> list[Instance]:
        """The loaders whose batches reach ``backward()``."""
        return [one for one in self.facts.loaders if one.site in self._trained_sites]

    @cached_property
    def _trained_sites(self) -> set[cst.CSTNode]:
        found = set(self.choices.trained)
        for node, _ in self.facts.backwards.items():
            for loop in self.control.around(node):
                iterated = loop.iter if isinstance(loop, cst.For) else loop.test
                found |= {one.site for one in self.loaders_in(iterated)}
        return found

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """What convert would do with a script of one process, and what it would not convert."""
        known = None if self.facts.brief or self.facts.cut_short else (self.facts, self.choices)
        return tuple(steps_of(self.project, known))
