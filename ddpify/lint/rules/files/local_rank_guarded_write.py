"""One rank of every node writes the same file.

## What it does
Looks for `torch.save` under a condition on the local rank.

## Why is this bad
On several nodes with a shared file system, as many processes write the file as there are nodes,
and it may be corrupt.

## Example
```python
if local_rank == 0:
    torch.save(net.state_dict(), path)
```

## Use instead
```python
if rank == 0:
    torch.save(net.state_dict(), path)
```

## Also fine
Files of the node itself.
```python
if local_rank == 0:
    torch.save(net.state_dict(), "/tmp/model.pt")
```

## When not to follow it
On a single node, and for files that each node needs. Where the project's commands start the script
with a launcher and none asks for several nodes, the finding is a possible one, as launchers start
one node unless they are told more.

## Fix safety
Unsafe: what else stands under the condition is then done on one node alone.

## References
https://github.com/NVIDIA/apex/issues/886
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.group_state import is_joined
from ddpify.lint.scripts.rendezvous import meets_on_one_node
from ddpify.lint.scripts.repairs import spelled
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import Guard
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import LOCAL_RANK, RANK, SPAWNED, TOLD


@rule(
    "local-rank-guarded-write",
    group="checkpoint",
    severity=Severity.SILENT,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Saves that one rank of each node makes."""
    if not script.strict and script.once(meets_on_one_node):
        return
    for call in script.calls("torch.save"):
        guards = _guards(script, call, frozenset())
        labels = [script.labels(guard.test) for guard in guards]
        if not any(_leaves_one(script, guard) for guard in guards):
            continue  # most ranks of a node get here, and what they do is decided otherwise
        if not labels or any(one & {RANK, SPAWNED, TOLD} for one in labels):
            continue
        given = argument(call, "f", 1)
        if given is None or "tmp" in script.code(given.value, 200).lower():
            continue
        if all(LOCAL_RANK in one for one in labels):
            yield Finding(
                call,
                "one rank of every node writes this file: on several nodes it may be corrupt",
                _fix(script, guards),
            )


def _leaves_one(script: Script, guard: Guard) -> bool:
    """Whether a condition on the rank may hold for one rank of a node alone."""
    test = guard.test
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return True
    asked, number = test.comparisons[0].operator, script.value(test.comparisons[0].comparator)
    first, second = number.constant() == 0, number.constant() == 1
    if guard.positive:
        below = isinstance(asked, cst.LessThan) and second
        return below or isinstance(asked, (cst.Equal, cst.Is, cst.In))
    above = isinstance(asked, cst.GreaterThan) and first
    above = above or (isinstance(asked, cst.GreaterThanEqual) and second)
    return above or isinstance(asked, (cst.NotEqual, cst.IsNot, cst.NotIn))


def _fix(script: Script, guards: list[Guard]) -> Fix | None:
    """``local_rank == 0`` as a question for the global rank, where there is a group to ask."""
    dist = spelled(script, "torch.distributed")
    test = guards[0].test if len(guards) == 1 else None
    if dist is None or not isinstance(test, cst.Comparison) or test not in script.structure.order:
        return None
    first = test.comparisons[0]
    zero = isinstance(first.comparator, cst.Integer) and first.comparator.evaluated_value == 0
    if len(test.comparisons) != 1 or not zero or not isinstance(first.operator, cst.Equal):
        return None
    if not is_joined(script.control, guards[0].statement):
        return None
    title = "let rank 0 of all nodes write"
    return script.replace(test.left, f"{dist}.get_rank()", title, Applicability.UNSAFE)


def _guards(script: Script, node: cst.CSTNode, seen: frozenset[cst.CSTNode]) -> list[Guard]:
    """The conditions on the rank around a node, or else around all calls of its function."""
    own = script.control.rank_guards(node)
    function = script.structure_of(node).function(node)
    if own or function is None or function in seen:
        return own
    callers = [
        _guards(script, site.node, seen | {function}) for site in script.control.callers(function)
    ]
    return [guard for one in callers for guard in one] if callers and all(callers) else []
