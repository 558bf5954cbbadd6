"""A rank from the environment is compared with a number: it is text, and never equals one.

## What it does
Looks for `==`, `!=` and `in` between what `os.environ` says of the rank or the number of ranks, and
numbers.

## Why is this bad
`os.environ["LOCAL_RANK"]` is `"0"`, which is not `0`. A block for rank 0 is left out on all ranks,
and nothing says so: no checkpoint is saved, nothing is printed.

## Example
```python
if os.environ["LOCAL_RANK"] == 0:
    torch.save(net.state_dict(), path)
```

```python
number = os.environ.get("RANK", 0)
if number in (-1, 0):
    print("started")
```

## Use instead
```python
if int(os.environ["LOCAL_RANK"]) == 0:
    torch.save(net.state_dict(), path)
```

## Also fine
```python
if os.environ["RANK"] == "0":
    print("started")
number = int(os.environ.get("RANK", 0))
if number == 0:
    print("started")
```

## Fix safety
Safe: the comparison then asks what it was written for. It holds on rank 0, and what stands under it
runs there.

## References
https://docs.python.org/3/library/os.html#os.environ
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import ANY_RANK, ENVIRONMENT_READERS, WORLD

_ASKED = ANY_RANK | {WORLD}
_EQUAL = (cst.Equal, cst.NotEqual)
_AMONG = (cst.In, cst.NotIn)


@rule("rank-is-text", group="launch", severity=Severity.SILENT, applies="distributed", fixes="safe")
def check(script: Script) -> Iterator[Finding]:
    """Comparisons of texts from the environment with numbers."""
    for node in script.structure.all(cst.Comparison):
        if len(node.comparisons) != 1 or not _is_text(script, node.left, depth=2):
            continue
        asked = node.comparisons[0]
        if _is_number(asked.operator, asked.comparator):
            yield Finding(
                node,
                f"{script.code(node.left, 40)} is a text, never equal to a number: on every rank"
                " this goes the same way",
                script.replace(node.left, f"int({code_of(node.left)})", "compare it as a number"),
            )


def _is_number(operator: cst.BaseCompOp, node: cst.BaseExpression) -> bool:
    if isinstance(operator, _AMONG):
        many = isinstance(node, (cst.Tuple, cst.List, cst.Set)) and bool(node.elements)
        return many and all(_is_integer(one.value) for one in node.elements)  # type: ignore[attr-defined]
    return isinstance(operator, _EQUAL) and _is_integer(node)


def _is_integer(node: cst.BaseExpression) -> bool:
    inner = node.expression if isinstance(node, cst.UnaryOperation) else node
    return isinstance(inner, cst.Integer)


def _is_text(script: Script, node: cst.BaseExpression, depth: int) -> bool:
    """Whether an expression is what the environment says, also by a name that is nothing else."""
    if isinstance(node, cst.Subscript):
        return "os.environ" in script.names(node.value) and bool(script.labels(node) & _ASKED)
    if isinstance(node, cst.Call):
        read = script.names(node.func) & {*ENVIRONMENT_READERS}
        return bool(read) and bool(script.labels(node) & _ASKED)
    if depth == 0 or not isinstance(node, cst.Name):
        return False
    edges = script.flow.edges_into({*script.control.locations(node)})
    return bool(edges) and all(
        not edge.passes and edge.value is not None and _is_text(script, edge.value, depth - 1)
        for edge in edges
    )
