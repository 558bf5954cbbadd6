"""Reading what the ranks recorded, one event at a time, so that memory does not grow with the
steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Place = tuple[int, int, int]
"""Where a random tensor is drawn: pass over a loader, batch in it, number of the draw since."""
Mark = tuple[float, float]
"""A tensor's fingerprint: its norm and its projection on a fixed direction."""


class Drawn(NamedTuple):
    """A random tensor: its sizes, the state of the generator that it came from, and the number of
    samples in the batch (0: unknown)."""

    shape: tuple[int, ...]
    state: int
    samples: int = 0

    @property
    def rows(self) -> int:
        """Its first size; 0 for a scalar."""
        return self.shape[0] if self.shape else 0


@dataclass(frozen=True)
class Step:
    """One optimizer step on one rank.

    Attributes:
        optimizer: Index of the optimizer, in order of first use.
        lr: Learning rate of each parameter group.
        before: Fingerprint of each parameter before the step; None where nothing changed since the
            optimizer's last step.
        params: The same after the step.
        grads: Of each gradient handed to clipping, or to the optimizer; None where there was none.
        losses: Value of each tensor that backward was called on since the step before.
        rows: For each call of the model since the step before, one number per row that entered.
        row_size: Elements in a row.
        columns: The same along dim 1, where time-major batches have their samples.
        column_size: Elements in a column.
        items: For each call with a list, one number per item of the list.
        forwards: For each backward, calls of a wrapped model since the one before.
        buffers: Fingerprint of each buffer after the step.
        rng: Checksum of each global random state after the step.
        at: The script's line that makes the step.
        synchronised: For each backward, whether the forward before it was outside of ``no_sync``.
        clips: Each clipping since the step before: PyTorch's function, the limit, how many
            backwards it follows, and the number of parameters.
        roots: The operations that made each loss: factors, and what they were put on.
        calls: Calls so far of what changes training besides the optimizer's step, by name.
        module_read: Whether the script reached through the wrapper since the step before.
        others: Before the step, each tensor of models that the optimizer does not hold.
        evaluating: The layers that are in evaluation mode.
        kept: Tensors in the script's variables that are there since the step before, at least.
        carried: Such tensors before the first forward since the step before: shape, fingerprint.
        arrived: Fingerprint of each gradient as the last backward left it; None where none was.
        used: Of each gradient handed to the step; empty where none was clipped by PyTorch.
        changed_early: Whether a gradient was changed before it entered a collective.
        predictions: One number for each row that PyTorch's losses took.
        targets: The same of their targets.
        pairs: One number for each of these rows together with its target.
        cleared: Whether zero_grad was called between the last backward and the step.
        drops: Whether a dropout was active since the step before.
    """

    optimizer: int
    lr: list[float]
    before: list[Mark] | None
    params: list[Mark]
    grads: list[Mark | None]
    losses: list[list[float]]
    rows: list[list[float]]
    row_size: int
    columns: list[list[float]]
    column_size: int
    items: list[list[float]]
    forwards: list[int]
    synchronised: list[bool]
    clips: list[list[str | float]]
    buffers: list[Mark]
    rng: dict[str, int]
    at: str
    roots: list[str]
    calls: dict[str, int]
    module_read: bool
    others: dict[str, Mark] = field(default_factory=dict)
    evaluating: list[str] = field(default_factory=list)
    kept: dict[str, Mark] = field(default_factory=dict)
    carried: dict[str, tuple[list[int], Mark]] = field(default_factory=dict)
    arrived: list[Mark | None] = field(default_factory=list)
    used: list[Mark | None] = field(default_factory=list)
    changed_early: bool = False
    predictions: list[float] = field(default_factory=list)
    targets: list[float] = field(default_factory=list)
    pairs: list[float] = field(default_factory=list)
    cleared: bool = False
    drops: bool = False


@dataclass(frozen=True)
class OptimizerStart:
    """An optimizer at its first step: names and fingerprints of its parameters before it.

    ``buffers``: names of the buffers of the models that hold them. ``places``: what a wrapper knew
    of each parameter: "averaged", "frozen" or "outside". ``wrapped``: whether there is a wrapper.
    ``settings``: numbers, texts and flags of each layer.
    ``options``: numbers among the options of each parameter, such as its weight decay.
    """

    optimizer: int
    type: str
    names: list[str]
    params: list[Mark]
    batch_norm: bool
    buffers: list[str]
    places: list[str]
    wrapped: bool
    options: list[dict[str, float]]
    settings: dict[str, dict[str, bool | int | float | str]] = field(default_factory=dict)


@dataclass
class Totals:
    """What a rank recorded besides its steps.

    Attributes:
        steps: Optimizer steps, those beyond the recorded ones included.
        work: Elements that met a parameter while gradients were recorded.
        faked: Calls answered by something else than the real thing.
        saves: Content of each checkpoint by path, the last one counting.
        written: Paths opened for writing, final names.
        collectives: Each one that was begun: name, shape, line of the script.
        chains: For each of them the script's lines on the stack, the innermost one first.
        devices: Indices of the simulated GPUs that were used, with the number of uses.
        moved: How wrapped models were moved or cast, and the script's line.
        draws: The random tensors that the training loop drew, the first ones, by their places.
        drops: The states of torch's generator before each dropout, of the first ones.
        listings: The script's lines that list folders, where the order was another than on rank 0.
        outside: Modules imported from folders that are not copied, each with its folder.
        complete: Whether the recording reached the script's end.
    """

    steps: int = 0
    work: int = 0
    faked: dict[str, int] = field(default_factory=dict)
    saves: dict[str, dict[str, Any]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    collectives: list[tuple[str, Any, str]] = field(default_factory=list)
    chains: list[tuple[str, ...]] = field(default_factory=list)
    devices: dict[str, int] = field(default_factory=dict)
    moved: list[tuple[str, str]] = field(default_factory=list)
    draws: dict[Place, Drawn] = field(default_factory=dict)
    drops: list[int] = field(default_factory=list)
    listings: list[str] = field(default_factory=list)
    outside: dict[str, str] = field(default_factory=dict)
    complete: bool = False


def events(path: Path) -> Iterator[dict[str, Any]]:
    """The events in ``path``; a line cut off by the rank's end is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


def steps(path: Path) -> Iterator[Step]:
    """The steps recorded in ``path``."""
    for event in events(path):
        if event.pop("event") == "step":
            event.pop("divided", None)
            yield Step(**event)


def optimizers(path: Path) -> dict[int, OptimizerStart]:
    """The optimizers that made a step, by index."""
    found: dict[int, OptimizerStart] = {}
    for event in events(path):
        if event.pop("event") == "optimizer":
            event.pop("divided", None)
            start = OptimizerStart(**event)
            found[start.optimizer] = start
    return found


def totals(path: Path) -> Totals:
    """Everything in ``path`` but the steps."""
    result = Totals()
    for event in events(path):
        kind = event["event"]
        if kind == "step":
            result.steps += 1
        elif kind == "write":
            result.written.add(event["path"])
        elif kind == "save":
            result.written.add(event["path"])
            result.saves[event["path"]] = event["tree"]
        elif kind == "collective":
            result.collectives.append((event["op"], event["shape"], event["at"]))
            result.chains.append(tuple(event["chain"]))
        elif kind == "moved":
            result.moved.append((event["how"], event["at"]))
        elif kind == "listing":
            result.listings.append(event["at"])
        elif kind == "rename":
            _rename(result, event["old"], event["new"])
        elif kind == "end":
            _complete(result, event)
    return result


def _complete(result: Totals, event: dict[str, Any]) -> None:
    """Take over what a rank says of its whole run at its end."""
    result.steps, result.work = event["steps"], event["work"]
    result.faked, result.devices = event["faked"], event["devices"]
    result.draws = {
        (turn, batch, number): Drawn(tuple(shape), state, samples)
        for turn, batch, number, shape, state, samples in event["draws"]
    }
    result.drops, result.outside = event["drops"], event["outside"]
    result.complete = True


def _rename(result: Totals, old: str, new: str) -> None:
    if old in result.saves:
        result.saves[new] = result.saves.pop(old)
    if old in result.written:
        result.written.discard(old)
        result.written.add(new)


Marked = TypeVar("Marked", OptimizerStart, Step)


def order_of(own: OptimizerStart, other: OptimizerStart) -> list[int] | None:
    """Where ``other`` has each parameter of ``own``, by name; None where names do not tell."""
    at = {name: index for index, name in enumerate(other.names)}
    if len(at) < len(other.names) or sorted(at) != sorted(own.names):
        return None
    return [at[name] for name in own.names]


def in_order(event: Marked, order: list[int]) -> Marked:
    """``event`` with what it tells of each parameter in another order."""
    keys = ("params", "grads", "arrived", "used", "before", "names", "places", "options")
    lists = {key: getattr(event, key, None) for key in keys}
    moved: dict[str, Any] = {
        key: [values[at] for at in order] for key, values in lists.items() if values
    }
    return replace(event, **moved)


def given(marks: list[Mark | None]) -> list[Mark]:
    """Absent gradients count as zero: an unused parameter has either."""
    return [mark or (0.0, 0.0) for mark in marks]
