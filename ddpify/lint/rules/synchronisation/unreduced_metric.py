"""Rank 0 reports its own part as if it were all.

## What it does
Looks for totals over a loader that is split among the ranks, which rank 0 prints, logs or writes
without a collective before, or by which it chooses what it saves.

## Why is this bad
Rank 0 has seen an Nth of the data. Its loss and accuracy are noisier than, and in general not
equal to, those of the whole set; the best checkpoint is chosen by them.

## Example
```python
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
if rank == 0:
    print("loss", total / len(loader))
```
```python
losses = []
batches = iter(loader)
for step in range(100):
    x, y = next(batches)
    losses.append(criterion(model(x), y).item())
if rank == 0:
    print("loss", sum(losses) / len(losses))
```
```python
class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value
        self.count += 1

    def __str__(self):
        return f"{self.total / self.count:.3f}"

losses = Meter()
for x, y in loader:
    losses.update(criterion(model(x), y).item())
if rank == 0:
    print(f"loss {losses}")
```
```python
best = 1e9
for epoch in range(epochs):
    total = 0.0
    for x, y in loader:
        total += criterion(model(x), y).item()
    is_best = total < best
    best = min(best, total)
    if is_best and rank == 0:
        torch.save(model.module.state_dict(), path)
```

## Use instead
```python
total = torch.zeros(1, device=device)
for x, y in loader:
    total += criterion(model(x), y).detach()
dist.all_reduce(total)
if rank == 0:
    print("loss", total.item() / len(loader) / world_size)
```

## Also fine
A step's own loss as a sign of life, and numbers from all of the data.
```python
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    if rank == 0 and i % 100 == 0:
        print(loss.item())
```
```python
whole = DataLoader(dataset, 32)
total = 0.0
for x, y in whole:
    total += criterion(model(x), y).item()
if rank == 0:
    print("loss", total / len(whole))
```

```python
class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value
        self.count += 1

    def __str__(self):
        return f"{self.total / self.count:.3f}"

losses, seconds = Meter(), Meter()
for x, y in loader:
    begun = time.time()
    losses.update(criterion(model(x), y).item())
    seconds.update(time.time() - begun)
if rank == 0:
    print("seconds", seconds)
```

```python
class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value
        self.count += 1

def evaluate(batches):
    meter = Meter()
    for x, y in batches:
        meter.update(criterion(model(x), y).item())
    return {"loss": meter.total / meter.count}

def probe():
    whole = DataLoader(dataset, 32)
    best = 1e9
    for _ in range(3):
        best = min(best, evaluate(whole)["loss"])
    return best

evaluate(loader)
if rank == 0:
    print("loss", probe())
```

## References
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.chosen_saves import choosing, compared
from ddpify.lint.scripts.displays import displayed
from ddpify.lint.scripts.meters import Meters
from ddpify.lint.scripts.numbers_of_steps import is_of_a_step
from ddpify.lint.scripts.partial_reads import reduce_part
from ddpify.lint.scripts.repairs import runtime
from ddpify.lint.scripts.reports import Reports
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.shown_objects import texts_of
from ddpify.lint.scripts.sure_parts import is_surely_own
from ddpify.lint.scripts.targets import targets
from ddpify.lint.scripts.unseen_code import UnseenCode
from ddpify.lint.scripts.unsharded_totals import sees_all_data
from ddpify.lint.scripts.ways_out import decides
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import parameters
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.reaching_definitions import reaching_definition
from ddpify.understanding.taint.sources import ANY_RANK, LOCAL, TOTAL

_WANTED = frozenset({LOCAL, TOTAL})  # a step's own loss is what many mean to show


@rule(
    "unreduced-metric",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Reports of totals that no collective has reduced."""
    if script.has_runtime:
        yield from _parts(script)
        return
    unseen, meters, reports = UnseenCode(script), Meters(script), Reports(script)
    for call in script.structure.all(cst.Call):
        if not reports.is_report(call) or not reports.is_on_some_ranks(call):
            continue
        if _sees_all_data(script, call) or _says_whose(script, call):
            continue
        for argument in reports.shown_of(call):
            parts = _unreduced(script, argument.value, unseen, meters)
            if parts:
                yield Finding(argument, _sentence(script, parts))
                break
    for test in choosing(script, reports):
        parts = _own(script, unseen, meters, [*compared(script, test)])
        if parts:
            names = " and ".join(dict.fromkeys(script.code(one, 40) for one in parts))
            what = "is rank 0's own part of the data, by which it chooses what it saves"
            yield Finding(test, f"{names} {what}: reduce it over the ranks first")


def _own(
    script: Script, unseen: UnseenCode, meters: Meters, shown: list[cst.BaseExpression]
) -> list[cst.BaseExpression]:
    """Those of several expressions that are a rank's own totals, whatever ran before."""
    parts = [
        one
        for one in shown
        if script.labels(one) & (_WANTED if script.strict else {TOTAL})
        and is_surely_own(script, one)
        and not (_is_path(script, one) or is_of_a_step(script, one))
        and not _is_told_to_helper(script, one)
        and not _is_made_of_whole(script, one)
    ]
    if any(map(unseen.may_be_reduced, parts)):
        return []
    return [
        one
        for one in parts
        if not sees_all_data(script, one) and (script.strict or meters.is_total(one))
    ]


def _unreduced(
    script: Script, argument: cst.BaseExpression, unseen: UnseenCode, meters: Meters
) -> list[cst.BaseExpression]:
    """What an argument of a report shows of this rank's totals, if nothing may have reduced it."""
    shown = {
        part: one for one in _shown(script, argument) for part in texts_of(script, meters, one)
    }
    return [shown[one] for one in _own(script, unseen, meters, [*shown])]


def _sentence(script: Script, parts: list[cst.BaseExpression]) -> str:
    names = [*dict.fromkeys(script.code(one, 40) for one in parts)]
    shown = " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"
    are = "is" if len(names) == 1 else "are"
    return (
        f"{shown} {are} rank 0's own part of the data: reduce it over the ranks before it is"
        " reported"
    )


def _shown(script: Script, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a report shows, one by one; also of a text that a name is set to before it."""
    if isinstance(node, cst.Name) and not _is_path(script, node):
        edges = script.flow.edges_into(script.control.locations(node))
        last = reaching_definition(script.structure, node, [edge.node for edge in edges])
        made = [edge.value for edge in edges if edge.node is last and edge.value is not None]
        if len(made) == 1 and not isinstance(made[0], (cst.Name, cst.Attribute)):
            shown = [*displayed(made[0])]
            if shown != made:
                yield from shown
                return
    yield from displayed(node)


def _parts(script: Script) -> Iterator[Finding]:
    """What a rank reads of values that ddpify's runtime would reduce."""
    dd = runtime(script) or "dd"
    for part in script.parts:
        if not part.is_loss and not decides(script, part.node):
            yield Finding(
                part.node,
                f"{script.code(part.node, 40)} is this rank's part of the batch:"
                f" {dd}.{part.remedy}() makes it that of all ranks",
                reduce_part(script.control, part),
            )


def _sees_all_data(script: Script, call: cst.Call) -> bool:
    """Whether the function around a report goes over loaders that every rank reads whole."""
    around = script.structure.function(call)
    loops = [x for x in script.structure.all(cst.For) if script.structure.function(x) is around]
    loaders = [one for loop in loops for one in script.loaders_in(loop.iter)]
    return bool(loaders) and not any(script.gives_parts(one) for one in loaders)


def _is_told_to_helper(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a helper shows what it is given: it is said where the helper is called."""
    function = script.structure.function(node)
    return (
        isinstance(function, cst.FunctionDef)
        and bool(script.control.callers(function))
        and _is_given(script, node, function, frozenset())
    )


def _is_made_of_whole(script: Script, node: cst.BaseExpression) -> bool:
    """Whether the names in an expression are set to what is whole where it is read: what a method
    reads of its own object is as whole as who calls it has made that.
    """
    names = [x for x in walk(node) if isinstance(x, cst.Name) and script.labels(x) & _WANTED]
    edges = [edge for x in names for edge in script.flow.edges_into({*script.control.locations(x)})]
    return bool(edges) and not any(
        edge.value is None or script.labels(edge.value) & _WANTED for edge in edges
    )


def _is_given(
    script: Script, node: cst.BaseExpression, function: cst.FunctionDef, seen: frozenset[Location]
) -> bool:
    """Whether a total comes into a function by its parameters alone."""
    names = [x for x in walk(node) if isinstance(x, cst.Name) and TOTAL in script.labels(x)]
    given = {one.name.value for one in parameters(function)}
    for name in names:
        locations = set(script.control.locations(name)) - seen
        made = [
            edge.value
            for edge in script.flow.edges_into(locations)
            if edge.value is not None
            and script.structure_of(edge.node).function(edge.node) is function
            and TOTAL in script.labels(edge.value)
        ]
        inner = seen | locations
        if not all(_is_given(script, one, function, inner) for one in made):
            return False
        if locations and not made and name.value not in given:
            return False
    return bool(names)


def _is_path(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a report names a file, whose name may tell a number."""
    shown = script.flow.locations(node, script.module)
    return any(
        script.flow.locations(target, effect.site.module) & shown
        for effect in script.facts.effects.values()
        if effect.kind in ("save", "folder")
        for target in targets(effect)
    )


def _says_whose(script: Script, call: cst.Call) -> bool:
    """``f"[rank {rank}] loss {total}"``: a report that claims no more than it is."""
    shown = [script.labels(one) for given in call.args for one in _shown(script, given.value)]
    return any(labels & ANY_RANK and TOTAL not in labels for labels in shown)
