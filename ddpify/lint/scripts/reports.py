"""Calls that show numbers to people: prints, logs, and the project's own functions that do so."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.bars import is_shown_by_some, is_told_to_bar
from ddpify.lint.scripts.displays import displayed
from ddpify.lint.scripts.loggers import is_logged_by_some
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.set_by_rank import object_guards
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import parameters
from ddpify.understanding.taint.call_graph import called

_FUNCTIONS = frozenset(
    "builtins.print logging.info wandb.log mlflow.log_metric mlflow.log_metrics json.dump"
    " tqdm.tqdm.write".split()
)
_METHODS = frozenset(
    "add_scalar add_scalars info log log_metrics log_metric write writerow".split()
)


class Reports:
    """Which calls of a script are reports, and on which ranks."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._known: dict[cst.CSTNode, list[cst.Call]] = {}

    def is_report(self, call: cst.Call) -> bool:
        """Whether a call shows what it gets, itself or in a function of the project."""
        functions = [one.node for one in called(self.script.facts, call)]
        if functions:
            return any(map(self._shown_in, functions))
        if self.script.names(call.func) & _FUNCTIONS:
            return True
        if is_told_to_bar(self.script, call):
            return True
        return isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS

    def shown_of(self, call: cst.Call) -> Iterator[cst.Arg]:
        """The arguments of a report that come to what is shown, in the function that it calls."""
        shown = {
            location
            for one in called(self.script.facts, call)
            for report in self._reports_in(one.node)
            for given in report.args
            for location in self.script.flow.locations(given.value, one.module)
        }
        moves = [one for one in self.script.flow.edges_at(call) if one.passes]
        for given in call.args:
            into = [slot for one in moves if one.value is given.value for slot in one.targets]
            if not (shown and into) or not shown.isdisjoint(self.script.flow.derived(into)):
                yield given

    def is_on_some_ranks(self, call: cst.Call) -> bool:
        """Whether only some ranks reach a report, or what shows it in the function it calls."""
        control = self.script.control
        if control.on_some_ranks(call) or object_guards(control, call):
            return True
        if self.script.replaces_print and "builtins.print" in self.script.names(call.func):
            return True
        if is_logged_by_some(self.script, call) or is_shown_by_some(self.script, call):
            return True
        functions = [one.node for one in called(self.script.facts, call)]
        shown = [inner for one in functions for inner in self._shown_in(one)]
        return bool(shown) and all(control.rank_guards(one) for one in shown)

    def _shown_in(self, function: cst.FunctionDef | cst.Lambda) -> list[cst.Call]:
        """The reports in a function's body of what it was given, where it reduces nothing."""
        known = self._known.get(function)
        if known is None:
            self._known[function] = []  # for a function that calls itself
            known = self._known[function] = list(self._find_shown(function))
        return known

    def _find_shown(self, function: cst.FunctionDef | cst.Lambda) -> Iterator[cst.Call]:
        names = {one.name.value for one in parameters(function)}
        found = [
            call
            for call in self._reports_in(function)
            if any(
                isinstance(shown, cst.Name) and shown.value in names
                for given in call.args
                for shown in displayed(given.value)
            )
        ]
        if found and not self.script.collectives(function):
            yield from found

    def _reports_in(self, function: cst.FunctionDef | cst.Lambda) -> Iterator[cst.Call]:
        calls = (one for one in walk(function.body) if isinstance(one, cst.Call))
        for call in calls:
            of_project = any(True for _ in called(self.script.facts, call))
            if not of_project and self.is_report(call):
                yield call
