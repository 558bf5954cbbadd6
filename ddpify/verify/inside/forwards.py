"""What enters the model while it trains: the batch, however it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ddpify.verify.inside.fingerprint import row, rows
from ddpify.verify.inside.patching import replace
from ddpify.verify.inside.world import computes

MAX_ROWS = 4096
"""Of a step with more rows than these none are kept: a part of them could not be compared."""

TOO_MANY = -1
"""In place of a row's size."""


class Forwards:
    """Watches the outermost calls of modules that hold parameters, in training mode.

    Args:
        is_open: Whether steps are still recorded.
        before: Takes each module before its call is noted.

    Attributes:
        rows: For each call since the last ``reset``, one number for each row (index of dim 0) of
            the first tensor that was handed in.
        columns: The same along dim 1, where time-major batches have their samples.
        items: One number for each item of the first argument with tensors where that is a list: a
            batch of samples that differ in size may be one.
        row_size: Elements in a row.
        column_size: Elements in a column.
    """

    def __init__(
        self, is_open: Callable[[], bool], before: Callable[[torch.nn.Module], None]
    ) -> None:
        self._is_open, self._before = is_open, before
        self._depth = 0
        self.reset()

    def reset(self) -> None:
        """Forget what has entered so far."""
        self.rows: list[list[float]] = []
        self.columns: list[list[float]] = []
        self.items: list[list[float]] = []
        self.row_size = self.column_size = 0

    def install(self) -> None:
        """Hook the call of every module; a global hook would not see named arguments."""
        real = torch.nn.Module.__call__

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                if self._depth == 1 and self._counts(module):
                    self._before(module)
                    self._note((*args, *kwargs.values()))
                return real(module, *args, **kwargs)
            finally:
                self._depth -= 1

        replace(torch.nn.Module, "__call__", call)

    def _counts(self, module: torch.nn.Module) -> bool:
        trains = self._is_open() and module.training and computes()
        return trains and next(module.parameters(), None) is not None

    def _note(self, given: Sequence[Any]) -> None:
        first = next(_tensors(given), None)
        items = _first_list(given)
        if items and sum(map(len, self.items)) + len(items) <= MAX_ROWS:
            self.items.append([row(item) for item in items])
        if first is None or first.is_complex():
            return
        self.rows, self.row_size = self._grown(self.rows, self.row_size, first)
        if first.dim() > 1:
            turned = first.transpose(0, 1)
            self.columns, self.column_size = self._grown(self.columns, self.column_size, turned)

    @staticmethod
    def _grown(
        known: list[list[float]], size: int, new: torch.Tensor
    ) -> tuple[list[list[float]], int]:
        """``known`` with the numbers of the rows of ``new``, and the size of a row."""
        if size < 0 or sum(map(len, known)) + len(new) > MAX_ROWS:
            return [], TOO_MANY
        return [*known, rows(new)], new[0].numel() if len(new) else size


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors with rows in nested arguments."""
    if isinstance(value, torch.Tensor):
        if value.dim():
            yield value
    elif isinstance(value, Mapping):
        for name in value:
            yield from _tensors(value[name])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _first_list(arguments: Sequence[Any]) -> list[torch.Tensor]:
    """The first tensor of each item of the first argument with tensors; none if it is no list."""
    for argument in arguments:
        if next(_tensors(argument), None) is not None:
            items = argument if isinstance(argument, (list, tuple)) else ()
            found = (next(_tensors(item), None) for item in items)
            return [item for item in found if item is not None]
    return []
