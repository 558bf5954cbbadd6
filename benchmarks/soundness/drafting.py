"""What drafts of scripts are made of."""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.soundness.forms import sinks, statements
from benchmarks.soundness.forms.operators import OPERATORS
from benchmarks.soundness.parts import Parts

STATEMENTS = [*statements.IN_PLACE, *statements.BY_ROW]


@dataclass(frozen=True)
class Draft:
    """Parts of a script, and in words what it is about."""

    form: str
    parts: Parts


def written(form: str, x: str, y: str, k: str) -> str:
    """A form on the values of these names."""
    return form.replace("{x}", x).replace("{y}", y).replace("{k}", k)


def statement(chance: random.Random, x: str, y: str, k: str) -> tuple[str, list[str]]:
    """A form, and the lines that make ``r`` with it."""
    if chance.random() < 0.75:
        form = chance.choice(OPERATORS)
        return form, [f"r = {written(form, x, y, k)}"]
    lines = chance.choice(STATEMENTS)
    return "; ".join(lines), [written(line, x, y, k) for line in lines]


def any_sink(chance: random.Random) -> sinks.Sink:
    """What is done with a result: half of them into the loss."""
    return chance.choice(sinks.LOSS if chance.random() < 0.5 else sinks.OTHER)


def with_sink(form: str, parts: Parts, sink: sinks.Sink) -> Draft:
    """Do with ``r`` in a training loop what the sink says."""
    parts.before += sink.before
    parts.loss = [*parts.loss, *sink.loss]
    parts.step += sink.step
    parts.end += sink.end
    return Draft(form, parts)
