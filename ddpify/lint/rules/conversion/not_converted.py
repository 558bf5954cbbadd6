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
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.syntax import dotted


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
            node = _import_of(script, step.site.module)
            yield Finding(node, f"not converted: {place}: {step.text}")


def _import_of(script: Script, module: ModuleFile) -> cst.CSTNode:
    """The import by which the file comes to take part, or else the first statement."""
    for node in script.structure.all(cst.Import, cst.ImportFrom):
        names = [] if isinstance(node.names, cst.ImportStar) else [x.name for x in node.names]
        parts = [dotted(name) or "" for name in names]
        if isinstance(node, cst.ImportFrom) and node.module is not None:
            parts.append(dotted(node.module) or "")
        if any(one.rsplit(".", 1)[-1] == module.path.stem for one in parts):
            return node
    return script.module.tree.body[0]
