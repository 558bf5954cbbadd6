"""`ddpify convert` does not take this script.

## What it does
Shows where and why the conversion of a script of one process would stop.

## Why is this bad
The other points of the list are then yours to look after.

## Example
```python single
for x, y in loader:
    noise = torch.stack([torch.empty_like(row).normal_() for row in x])
    loss = criterion(model(x + noise), y)
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
from ddpify.lint.scripts.script import Script


@rule("not-converted", group="data", severity=Severity.STYLE, applies="single")
def check(script: Script) -> Iterator[Finding]:
    """The reasons, at their lines, in the script that starts the training."""
    if not script.starts_training:
        return  # what is imported is converted with what imports it
    for step in script.steps:
        if step.refused and step.site.module is script.module:
            yield Finding(step.site.node, f"not converted: {step.text}")
        elif step.refused:
            place = f"{step.site.module.path.name}:{step.site.line}"
            yield Finding(_first_statement(script), f"not converted: {place}: {step.text}")


def _first_statement(script: Script) -> cst.CSTNode:
    return script.module.tree.body[0]
