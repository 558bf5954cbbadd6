"""A plan: what is reduced, gathered and split, with the facts that it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import libcst as cst

from ddpify.planning.conversion_options import Options
from ddpify.planning.refusals import Refusal
from ddpify.records import record
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Demand, Facts, Site
from ddpify.understanding.forms import NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.taint.file_names import FileNames
from ddpify.understanding.taint.flow import Flow
from ddpify.understanding.values import UNKNOWN

_CHANGES_OF_MIND = 8  # about one place: more do not settle, either


@record
class Reduction:
    """One expression to reduce: how is mean, sum, gather, shape or count; weight as code.

    ``trained_on``: gradients come from it. ``coupled``: a loss compares these rows with each other.
    """

    node: cst.BaseExpression
    how: str
    weight: str = ""
    trained_on: bool = False
    coupled: bool = False


@dataclass(slots=True)
class Plan:
    """All decisions about one script."""

    project: Project
    options: Options
    facts: Facts
    choices: Choices
    reductions: dict[cst.CSTNode, Reduction] = field(default_factory=dict)
    replicated: dict[cst.CSTNode, str] = field(default_factory=dict)  # loader's place -> why
    assumed: set[cst.CSTNode] = field(default_factory=set)
    dropped: Counter[cst.CSTNode] = field(default_factory=Counter)  # how often, as outdated
    barred: set[cst.CSTNode] = field(default_factory=set)  # gets replicated values in another call
    # Of those, the calls that may be replicated, if nothing else resolves the others.
    others: dict[cst.CSTNode, list[Site]] = field(default_factory=dict)
    idle: frozenset[cst.CSTNode] = frozenset()  # reductions dropped last that nothing came to
    unmet: list[Demand] = field(default_factory=list)  # when it last decided
    refusals: list[Refusal] = field(default_factory=list)  # what is left unconverted by force

    _flow: Flow | None = None
    _places: FileNames | None = None

    @property
    def flow(self) -> Flow:
        """Which names carry what, through all files."""
        if self._flow is None:
            structures = {file: file.structure for file in self.project.files}
            self._flow = Flow(self.facts, structures)
        return self._flow

    @property
    def places(self) -> FileNames:
        """Which files are read and asked for, in all files."""
        if self._places is None:
            self._places = FileNames(self.facts, self.flow)
        return self._places

    def refuse(self, refusal: Refusal) -> None:
        """Raise a refusal or, where the user wants what can be had, keep it to be marked."""
        if refusal.final or not self.options.force:
            raise refusal
        if all(str(refusal) != str(known) for known in self.refusals):
            self.refusals.append(refusal)

    def state(self) -> object:
        """All decisions so far, to compare: the same ones lead to the same again."""
        made = self.choices
        loops = (
            *(made.reduced, made.apart, made.replicated, made.beside, made.trained, made.flat),
            self.barred,
        )
        return (
            frozenset(self.reductions.items()),
            frozenset(self.replicated),
            *map(frozenset, loops),
            frozenset(made.split.items()),
            frozenset(made.batches.items()),
            frozenset(made.unequal),
            frozenset(made.switches.items()),
            frozenset(made.named.items()),
            frozenset(made.cuts.items()),
            frozenset(made.replicated_statements),
            (made.by_hand, made.stated, made.split_all, made.alone, len(self.refusals)),
        )

    def record(self, reduction: Reduction) -> None:
        """Decide on a reduction, for the next run of the interpreter to take into account.

        Of numbers up to that of the rows, those up to that of all rows are what is asked for.
        """
        held = self.facts.values.get(reduction.node, UNKNOWN).data
        if reduction.how == "gather" and held and all(data.counting for data in held):
            self.count(node for data in held for node in data.counting)
            return
        if reduction.how == "count" and self._is_summed(reduction.node):
            reduction = replace(reduction, how="sum")
        self.reductions[reduction.node] = reduction
        self.choices.reduced.add(reduction.node)

    def _is_summed(self, node: cst.CSTNode) -> bool:
        """Whether a number of rows is, on another way, that of the rows that a mask leaves.

        The sum over the ranks is right for both.
        """
        got = self.facts.reductions.reduced.get(node, set()) | set(
            self.facts.values.get(node, UNKNOWN).data
        )
        numbers = {data.placement for data in got if data.form is NumberKind.NUMBER}
        return numbers == {Placement.COUNT, Placement.SUM}

    def count(self, numbers: Iterable[cst.BaseExpression]) -> None:
        """Decide that numbers of this rank's rows are to be those of all."""
        for node in numbers:
            self.record(Reduction(node, "count"))

    def drop(self, node: cst.CSTNode) -> None:
        """Take a reduction back; where that has happened again and again, for good.

        What reads a part there is then met in another way, or refused by its own name.
        """
        del self.reductions[node]
        self.choices.reduced.discard(node)
        self.dropped[node] += 1
        if self.dropped[node] > _CHANGES_OF_MIND:
            self.barred.add(node)

    def bar(self, node: cst.CSTNode) -> None:
        """Take a reduction back, and never reduce there again."""
        del self.reductions[node]
        self.choices.reduced.discard(node)
        self.barred.add(node)

    def forget_reductions(self) -> None:
        """Decide anew: what was decided for a loader that is now replicated may be unneeded."""
        self.reductions.clear()
        self.choices.reduced.clear()
        self.choices.split.clear()

    @property
    def aside(self) -> set[cst.CSTNode]:
        """The places of replicated loaders that are used while others' batches are in use."""
        return self.choices.beside & self.replicated.keys()

    @property
    def editable(self) -> list[ModuleFile]:
        """The files that may be changed, the script itself first."""
        return [file for file in self.project.files if file.editable]

    def module_of(self, node: cst.CSTNode) -> ModuleFile:
        """The file that a node stands in."""
        owner = self.project.owner(node)
        assert owner is not None
        return owner

    def sites(self, *kinds: type[cst.CSTNode]) -> Iterator[Site]:
        """All nodes of these types in the files that may be changed."""
        for file in self.editable:
            yield from (Site(node, file) for node in file.structure.all(*kinds))

    def site(self, node: cst.CSTNode) -> Site:
        """A node with its file."""
        return Site(node, self.module_of(node))
