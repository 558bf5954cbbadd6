"""Draws scripts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.soundness.kinds import KINDS
from benchmarks.soundness.parts import assembled


@dataclass(frozen=True)
class Script:
    """A training script: its place in the sequence, its kind, what it is about, its text."""

    number: int
    kind: str
    form: str
    text: str


def scripts(
    seed: int, kinds: Sequence[str] = (), step: int = 1, first: int = 0
) -> Iterator[Script]:
    """Every ``step``-th script from the ``first``, of the endless sequence of a seed."""
    chosen = list(kinds) or list(KINDS)
    weights = [KINDS[kind][1] for kind in chosen]
    number = first
    while True:
        chance = random.Random(f"{seed} {number}")
        kind = chance.choices(chosen, weights)[0]
        draft = KINDS[kind][0](chance)
        yield Script(number, kind, draft.form, assembled(draft.parts, chance))
        number += step
