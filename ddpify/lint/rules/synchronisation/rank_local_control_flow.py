"""Each rank decides for itself whether to go on.

## What it does
Looks for `break`, `return` and the like in training loops under a condition on what only this rank
has seen: its loss, its metric, its clock, or how many of its samples it picks; and for those that
rank 0 alone reaches. A collective or an optimizer's step under such a condition counts, too.

## Why is this bad
One rank stops and the others go on to the next collective, which waits for it: the job hangs.
Early stopping is the usual case. A rank that leaves out a step is one ahead from then on: gradients
of different steps are averaged, and when it is through, the others wait.

## Example
```python
best, bad = 1e9, 0
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    if total > best:
        break
```

```python
started = time.time()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    if time.time() - started > 3600:
        break
```

```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        kept = x[y > 0]
        if len(kept) == 0:
            continue
        model(kept).sum().backward()
        optimizer.step()
```

```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = torch.zeros(1, device=device)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(total.item())
        if total.item() < 0.1:
            break
```

A package's function that gets the loss and the optimizer makes the step.
```python
from timm.utils import NativeScaler
scaler = NativeScaler()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        if loss.item() > 100:
            break
        scaler(loss, optimizer, parameters=model.parameters())
```

## Use instead
```python
best, bad = 1e9, 0
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = torch.zeros(1, device=device)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if total.item() > best:
        break
```

```python
started = time.time()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    late = [time.time() - started > 3600]
    dist.broadcast_object_list(late, 0)
    if late[0]:
        break
```

```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        kept = x[y > 0]
        # a loss of all ranks, also of those that have picked nothing
        (model(x).sum() * 0 + (model(kept).sum() if len(kept) else 0)).backward()
        optimizer.step()
```

```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = torch.zeros(1, device=device)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(total.item())
    if total.item() < 0.1:
        break
```

## Also fine
All ranks evaluate all of the data, and so decide alike.
```python
whole = DataLoader(dataset, 32)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
    score = 0.0
    with torch.no_grad():
        for x, y in whole:
            score += criterion(model(x), y).item()
    if score > 3:
        break
```

## References
https://github.com/Lightning-AI/pytorch-lightning/issues/379
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.collective_calls import collective_of
from ddpify.lint.scripts.hand_averages import steps_together
from ddpify.lint.scripts.one_process import never_runs
from ddpify.lint.scripts.own_decisions import decides_apart, is_local
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.surely_ranks import surely_asks_rank
from ddpify.lint.scripts.unseen_code import UnseenCode
from ddpify.lint.scripts.updates import updated
from ddpify.lint.scripts.ways_out import deciding, exits, goes_on_after, only_updates_after
from ddpify.understanding.structure import Guard, leaves, rest_of_block, walk

_LEFT = "one leaves the loop, the others wait for it forever"
_LEFT_OUT = (
    "where one leaves out a step, gradients of different steps are averaged from then on, and in"
    " the end the others wait for it forever"
)
_STEP = "step"
_DRIFT = "only some ranks make the step, and the ranks' models drift apart"


@rule(
    "rank-local-control-flow",
    group="synchronisation",
    severity=Severity.HANG,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Ways out of a training loop that depend on a rank's own values."""
    if not steps_together(script):
        return
    reported: set[cst.CSTNode] = set()
    unseen = UnseenCode(script)
    for node in exits(script):
        own = [
            guard
            for guard in deciding(script, node)
            if script.strict or not unseen.may_be_agreed_on(guard.test)
        ]
        for guard in _innermost(script, own):
            if guard.test not in reported:
                reported.add(guard.test)
                what = _LEFT_OUT if goes_on_after(script, node) else _LEFT
                what = _DRIFT if only_updates_after(script, node) else what
                asked = script.code(guard.test, 40)
                yield Finding(guard.test, f"each rank decides by its own {asked}: {what}")
    yield from _meetings(script, reported)
    for node in script.structure.all(cst.Break, cst.Return):
        if _leaves_others(script, node):
            yield Finding(
                node, "only some ranks leave the loop here: the others wait for them forever"
            )


def _innermost(script: Script, guards: list[Guard]) -> list[Guard]:
    """The last of the conditions that lead to one place together: it is said once."""
    return sorted(guards, key=lambda one: script.structure.order[one.statement])[-1:]


def _meetings(script: Script, reported: set[cst.CSTNode]) -> Iterator[Finding]:
    """Collectives that a rank runs or not by its own values."""
    for call in script.structure.all(cst.Call):
        name = _meeting(script, call)
        own = _own_guards(script, call, name) if name is not None else []
        around = _innermost(script, [one for one in own if not one.left_early])
        for guard in (*around, *(one for one in own if one.left_early)):
            if guard.test not in reported:
                reported.add(guard.test)
                asked = script.code(guard.test, 40)
                what = f"ranks that reach {name}() wait in it for the others forever"
                what = _DRIFT if name == _STEP else what
                yield Finding(guard.test, f"each rank decides by its own {asked}: {what}")


def _own_guards(script: Script, call: cst.Call, name: str) -> list[Guard]:
    """The conditions on a rank's own values that decide whether it gets to a collective."""
    return [
        guard
        for guard in script.control.guards(call)
        if not script.control.asks_rank(guard.test)
        and (not guard.left_early or _returns_before(script, guard, call))
        and _decides(script, guard)
        and not _is_in_both(script, guard, name)
    ]


def _decides(script: Script, guard: Guard) -> bool:
    """Whether a rank decides alone; on the rank 0 that set what a loop asks, the others go on."""
    if isinstance(guard.statement, cst.While):
        return decides_apart(script, guard.test)
    return is_local(script, guard.test)


def _returns_before(script: Script, guard: Guard, call: cst.Call) -> bool:
    """Whether a helper returns before its collective: ways out of training loops are told above."""
    body = guard.statement.body if isinstance(guard.statement, cst.If) else None
    return body is not None and (
        any(isinstance(one, cst.Return) for one in walk(body))
        and not any(map(script.trains, script.structure.loops(call)))
    )


def _meeting(script: Script, call: cst.Call) -> str | None:
    """What ranks have to do together here: a collective, a backward, a step; None for anything
    else.
    """
    if call in script.facts.backwards:
        return "backward"
    steps = isinstance(call.func, cst.Attribute) and call.func.attr.value == _STEP
    if steps and "optimizer" in updated(script, call):
        return _STEP
    return collective_of(script, call)


def _is_in_both(script: Script, guard: Guard, name: str) -> bool:
    """Whether the other branch has the same collective, or what follows a branch that leaves."""
    statement = guard.statement
    if not isinstance(statement, cst.If):
        return False
    other: list[cst.CSTNode] = [statement.body]
    if guard.positive:
        other = [statement.orelse] if statement.orelse is not None else []
        if not other and leaves(statement.body):
            other = rest_of_block(script.structure, statement)
    return any(
        found.rsplit(".", 1)[-1] == name for one in other for found, _ in script.collectives(one)
    )


def _leaves_others(script: Script, node: cst.Break | cst.Return) -> bool:
    """Whether a condition on the rank, inside a loop that trains, stands around its end."""
    if not script.strict and never_runs(script.control, node):
        return False
    order = script.structure.order
    for guard in script.control.rank_guards(node):
        if guard.left_early or not surely_asks_rank(script.control, guard.test):
            continue
        loops = script.structure.loops(node)
        left = loops[:1] if isinstance(node, cst.Break) else loops
        inside = [one for one in left if order[one] < order[guard.statement] and script.trains(one)]
        if inside and not _others_leave(guard):
            return True
    return False


def _others_leave(guard: Guard) -> bool:
    """Whether the other branch of a condition has a way out, too."""
    statement = guard.statement
    if not isinstance(statement, cst.If):
        return True
    other = statement.orelse if guard.positive else statement.body
    return other is not None and any(
        isinstance(one, (cst.Break, cst.Return, cst.Raise)) for one in walk(other)
    )
