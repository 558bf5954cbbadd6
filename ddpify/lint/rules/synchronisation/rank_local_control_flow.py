"""Each rank decides for itself whether to go on.

## What it does
Looks for `break`, `return` and the like in training loops under a condition on what only this rank
has seen: its loss, its metric, its clock, or how many of its samples it picks; and for those that
rank 0 alone reaches.

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

from ddpify.lint.certainty import surely_asks_rank
from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.collective_calls import collective_of
from ddpify.lint.scripts.decided import is_decided_by_own
from ddpify.lint.scripts.picked import asks_for_any, counts_picked
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import ALL_COLLECTIVES
from ddpify.lint.scripts.unseen_code import UnseenCode
from ddpify.lint.scripts.unsharded_totals import is_own
from ddpify.lint.scripts.updates import updated
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.taint.sources import CLOCK

_LEFT = "one leaves the loop, the others wait for it forever"
_LEFT_OUT = (
    "where one leaves out a step, gradients of different steps are averaged from then on, and in"
    " the end the others wait for it forever"
)
_STEP = "step"
_DRIFT = "only some ranks make the step, and the ranks' models drift apart"
_EXITS = ("sys.exit", "builtins.exit", "builtins.quit", "os._exit")


@rule(
    "rank-local-control-flow",
    group="synchronisation",
    severity=Severity.HANG,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Ways out of a training loop that depend on a rank's own values."""
    if not script.wraps:
        return
    reported: set[cst.CSTNode] = set()
    unseen = UnseenCode(script)
    for node in _exits(script):
        for guard in _deciding(script, node):
            if unseen.may_be_agreed_on(guard.test) and not script.strict:
                continue
            if guard.test not in reported:
                reported.add(guard.test)
                what = _LEFT_OUT if _goes_on_after(script, node) else _LEFT
                asked = script.code(guard.test, 40)
                yield Finding(guard.test, f"each rank decides by its own {asked}: {what}")
    yield from _meetings(script, reported)
    for node in script.structure.all(cst.Break, cst.Return):
        if _leaves_others(script, node):
            yield Finding(
                node, "only some ranks leave the loop here: the others wait for them forever"
            )


def _meetings(script: Script, reported: set[cst.CSTNode]) -> Iterator[Finding]:
    """Collectives that a rank runs or not by its own values."""
    for call in script.structure.all(cst.Call):
        name = _meeting(script, call)
        for guard in script.control.guards(call) if name is not None else ():
            if guard.left_early or guard.test in reported or script.control.asks_rank(guard.test):
                continue
            if _is_local(script, guard.test) and not _is_in_both(script, guard, name):
                reported.add(guard.test)
                asked = script.code(guard.test, 40)
                what = f"ranks that reach {name}() wait in it for the others forever"
                what = _DRIFT if name == _STEP else what
                yield Finding(guard.test, f"each rank decides by its own {asked}: {what}")


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


def _is_in_both(script: Script, guard: Guard, name: str | None) -> bool:
    """Whether the other branch has the same collective."""
    statement = guard.statement
    if not isinstance(statement, cst.If):
        return False
    other = statement.orelse if guard.positive else statement.body
    return other is not None and any(
        found.rsplit(".", 1)[-1] == name for found, _ in script.collectives(other)
    )


def _leaves_others(script: Script, node: cst.Break | cst.Return) -> bool:
    """Whether a condition on the rank, inside a loop that trains, stands around its end."""
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


def _goes_on_after(script: Script, node: cst.CSTNode) -> bool:
    """Whether a rank leaves out one step, and takes part in the next."""
    if isinstance(node, cst.Return):
        return _leaves_out_a_step(script, node)
    return isinstance(node, cst.Continue)


def _exits(script: Script) -> Iterator[cst.CSTNode]:
    yield from script.structure.all(cst.Break, cst.Continue, cst.Return)
    for node in [*script.structure.all(cst.Raise), *script.calls(*_EXITS)]:
        if script.control.in_try(node) or not _ends_the_job(node):
            yield node


def _ends_the_job(node: cst.CSTNode) -> bool:
    """Whether a rank fails: its launcher then stops the others. An exit without a code does not."""
    if not isinstance(node, cst.Call):
        return True
    given = [one.value for one in node.args]
    return bool(given) and not (isinstance(given[0], cst.Integer) and given[0].value == "0")


def _deciding(script: Script, node: cst.CSTNode) -> Iterator[Guard]:
    """Conditions on local values between a way out and the training loop that it leaves."""
    if isinstance(node, cst.Return) and _leaves_out_a_step(script, node):
        own = (g for g in script.control.guards(node) if not g.left_early)
        yield from (g for g in own if _decides_apart(script, g.test))
        return
    loops = [loop for loop in script.structure.loops(node) if script.trains(loop)]
    if isinstance(node, cst.Break):
        loops = [x for x in script.structure.loops(node)[:1] if x in loops or _goes_on(script, x)]
    if not loops or (isinstance(node, cst.Continue) and not _leaves_out_steps(script, node)):
        return
    order = script.structure.order
    for guard in script.control.guards(node):
        inside = order[guard.statement] > order[loops[-1]] and not guard.left_early
        if inside and _decides_apart(script, guard.test):
            yield guard


def _decides_apart(script: Script, test: cst.BaseExpression) -> bool:
    """Whether the answer is a rank's own, and not by its number."""
    return _is_local(script, test) and not script.control.asks_rank(test)


def _leaves_out_a_step(script: Script, node: cst.Return) -> bool:
    """Whether a function of one step, which a loop calls, ends before its ``backward()``."""
    structure = script.structure
    function = structure.function(node)
    if function is None or any(script.trains(loop) for loop in structure.loops(node)):
        return False
    order = structure.order
    after = [
        one
        for one in script.facts.backwards
        if one in order and structure.function(one) is function and order[one] > order[node]
    ]
    return any(not structure.loops(one) for one in after) and any(
        script.trains(loop) for loop in script.control.around(after[0])
    )


def _leaves_out_steps(script: Script, node: cst.Continue) -> bool:
    """Whether ranks meet in what stands between a ``continue`` and the end of its loop."""
    order = script.structure.order
    return any(
        one in script.facts.backwards
        or (
            isinstance(one, cst.Call)
            and bool(script.is_wrapped(one.func) or script.names(one.func) & ALL_COLLECTIVES)
        )
        for loop in script.structure.loops(node)[:1]
        for one in script.reached(loop.body)
        if order.get(one, order[node] + 1) > order[node]
    )


def _is_local(script: Script, test: cst.BaseExpression) -> bool:
    """Whether the answer is this rank's own: of its part of the data, or of its clock."""
    if CLOCK in script.labels(test):
        return True
    if not script.has_runtime:
        own = is_own(script, test) and not asks_for_any(script, test)
        return own or counts_picked(script, test) or is_decided_by_own(script, test)
    read = {part.node for part in script.parts}
    return any(node in read for node in walk(test))


def decides(script: Script, node: cst.CSTNode) -> bool:
    """Whether an expression stands in a condition that this rule reports."""
    above = {node, *script.structure.up(node)}
    return any(guard.test in above for one in _exits(script) for guard in _deciding(script, one))


def _goes_on(script: Script, loop: cst.CSTNode) -> bool:
    return bool(script.collectives(loop))
