"""Rules that are asked in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def first_answer(rules: Iterable[Callable[[Asked], Answer | None]], asked: Asked) -> Answer | None:
    """What the first rule says that applies; None where none does."""
    return next((answer for rule in rules if (answer := rule(asked)) is not None), None)
