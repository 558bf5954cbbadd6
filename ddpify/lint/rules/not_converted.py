"""`ddpify convert` does not take this script.

## What it does
Shows where and why the conversion of a script of one process would stop.

## Why is this bad
The other points of the list are then yours to look after.

## Example
```python single
scores = torch.zeros(2)
for x, y in loader:
    rows = model(x)
    loss = rows[0][0]
    loss.backward()
    optimizer.step()
```

## Use instead
```python single
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
```

## Also fine
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
```

## References
`ddpify convert --help`
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.script import Script


@rule("not-converted", group="data", severity=Severity.STYLE, applies="single")
def check(script: Script) -> Iterator[Finding]:
    """The reason, at its line."""
    refusal = script.refusal
    if refusal is not None:
        yield Finding(
            _place(script, refusal.path, refusal.line), f"not converted: {refusal.message}"
        )


def _place(script: Script, path: str | None, line: int | None) -> cst.CSTNode:
    """The statement of a line of this file; else the first backward pass."""
    if path == str(script.module.path) and line is not None:
        kinds = (cst.SimpleStatementLine, cst.For, cst.While, cst.With, cst.If)
        statements: list[cst.CSTNode] = script.structure.all(*kinds)
        for node in statements:
            if script.positions.span(node).line == line:
                return node
    own = [node for node in script.facts.backwards if script.owners.get(node) is script.module]
    return own[0] if own else script.module.tree
