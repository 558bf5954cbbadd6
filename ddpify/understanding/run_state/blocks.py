"""What holds inside of a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.merged_calls import Ways
from ddpify.understanding.run_state.state import State
from ddpify.understanding.values import Data, Function, Instance


class Blocks(State):
    """Context managers, for as long as a block of code is in progress."""

    @contextmanager
    def without_grad(self, active: bool = True) -> Iterator[None]:
        """Inside, no graph is recorded."""
        self.no_grad += active
        try:
            yield
        finally:
            self.no_grad -= active

    @contextmanager
    def in_mode(self, training: bool | None) -> Iterator[None]:
        """Inside, a model's forward runs in this mode."""
        outer, self.training = self.training, training
        try:
            yield
        finally:
            self.training = outer

    @contextmanager
    def with_all_replicated(self, active: bool = True) -> Iterator[None]:
        """Inside, the script says that every rank holds all rows."""
        self.all_replicated += active
        try:
            yield
        finally:
            self.all_replicated -= active

    @contextmanager
    def trying(self, function: Function | None = None) -> Iterator[Facts]:
        """Inside, a function or an expression is tried: what is learned is kept apart."""
        outer = self.facts, self.results, self.previous, self.tried, self.ways, self.tried_writes
        self.tried_writes = []
        self.tried = function or self.tried
        self.facts = self.facts.tried()
        self.results, self.previous, self.ways = {}, {}, Ways(self.ways.bounds)
        left, self.left = self.left, {}
        self.trials += 1
        try:
            yield self.facts
        finally:
            self.trials -= 1
            tried, writes = self.facts, self.tried_writes
            self.facts, self.results, self.previous, self.tried, self.ways, self.tried_writes = (
                outer
            )
            self.left = left
            self.facts.taken_together |= tried.taken_together
            self.tried_writes = writes if self.tried is None else [*self.tried_writes, *writes]

    @contextmanager
    def in_collate(self, loader: Instance | None = None) -> Iterator[None]:
        """Inside, samples of a loader are put together, or picked, which ranks do by themselves."""
        outer, self.rounds, self.collated = self.rounds, [], loader
        self.collating = True
        try:
            yield
        finally:
            self.collating = False
            self.rounds, self.collated = outer, None

    @contextmanager
    def taking_rows(self, through: cst.BaseExpression, rows: Data | None) -> Iterator[None]:
        """Inside, each round takes one of these rows of what a loop goes through, if any."""
        if rows is None:
            yield
            return
        self.rows_taken.append(rows)
        self.gone_through.append(through)
        try:
            yield
        finally:
            self.rows_taken.pop()
            self.gone_through.pop()

    @contextmanager
    def through_replicated(self, active: bool) -> Iterator[None]:
        """Inside, each round takes a replicated batch."""
        self.taking_replicated += active
        try:
            yield
        finally:
            self.taking_replicated -= active
