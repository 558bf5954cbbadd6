"""`ddpify convert` changes this too.

## What it does
Shows what else the conversion of a script of one process would change, or ask to look at: what has
no rule of its own, as it is right in code for several processes, or cannot be in it.

## Why is this bad
It is not. A rank holds a part of each batch, and code that counts on all of it must be told so.

## Example
```python single
for x, y in loader:
    criterion(model(x.squeeze()), y).backward()
    optimizer.step()
```

## Use instead
```python single
for x, y in loader:
    criterion(model(x.squeeze(1)), y).backward()
    optimizer.step()
```

## Also fine
```python
for x, y in loader:
    criterion(model(x.squeeze()), y).backward()
```

## References
`ddpify convert --help`
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, of_convert, rule
from ddpify.lint.scripts.script import Script


@rule("conversion-step", group="data", severity=Severity.STYLE, applies="single")
def check(script: Script) -> Iterator[Finding]:
    """What else is done, at its lines."""
    yield from of_convert(script, "DDP003")
