"""A rank waits for somebody to type.

## What it does
Looks for `input()`, `getpass()` and reads of `sys.stdin`, `breakpoint()`, `pdb.set_trace()` and
`IPython.embed()` that all ranks reach.

## Why is this bad
Under torchrun the ranks have no terminal. They read an end of file and fail, or wait while the
others run into the timeout.

## Example
```python
answer = input("Overwrite? ")
```
```python
from getpass import getpass
token = getpass("Token: ")
```
```python
import pdb
for x, y in loader:
    pdb.set_trace()
    criterion(model(x), y).backward()
```

## Use instead
```python
parser = argparse.ArgumentParser()
parser.add_argument("--overwrite", action="store_true")
```

## Also fine
```python
if rank == 0 and os.isatty(0):
    answer = input("Overwrite? ")
```

## References
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.system_commands import TYPED

_DEBUGGERS = frozenset({"builtins.breakpoint", "pdb.set_trace", "ipdb.set_trace", "IPython.embed"})


@rule(
    "interactive-call",
    group="launch",
    severity=Severity.HANG,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Questions to a terminal that ranks do not have."""
    for call in script.calls(*TYPED, *_DEBUGGERS):
        if not script.may_be_guarded(call):
            yield Finding(
                call, "ranks have no terminal: this fails, or waits while others time out"
            )
