"""Numbers are given out in the order of a set or a folder.

## What it does
Looks for `enumerate()` over a set, `os.listdir` or `glob` that makes a mapping.

## Why is this bad
The order of a set of strings differs from process to process, that of a folder from node to node:
the ranks number the classes differently, and average gradients that mean different things.

## Example
```python
labels = ["cat", "dog"]
index = {name: i for i, name in enumerate(set(labels))}
```

## Use instead
```python
labels = ["cat", "dog"]
index = {name: i for i, name in enumerate(sorted(set(labels)))}
```

## Also fine
```python
labels = ["cat", "dog"]
known = {name for name in set(labels)}
count = len(set(labels))
```

## Fix safety
Unsafe: classes get other numbers than in an earlier run, whose checkpoints then do not fit.

## References
https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.script import Script
from ddpify.understanding.syntax import code_of

_UNORDERED = (
    "builtins.set",
    "builtins.frozenset",
    "os.listdir",
    "os.scandir",
    "glob.glob",
    "glob.iglob",
)


@rule(
    "unordered-iteration-defines-state",
    group="data",
    severity=Severity.SILENT,
    applies="single distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Mappings whose numbers follow an order that is not fixed."""
    for made in script.structure.all(cst.DictComp):
        source = made.for_in.iter
        if not isinstance(source, cst.Call) or "builtins.enumerate" not in script.names(
            source.func
        ):
            continue
        given = source.args[0].value if source.args else None
        if isinstance(given, cst.Set) or (
            isinstance(given, cst.Call) and script.names(given.func) & set(_UNORDERED)
        ):
            fix = script.replace(
                given, f"sorted({code_of(given)})", "fix the order", Applicability.UNSAFE
            )
            yield Finding(
                given, "this order differs between ranks: they number things differently", fix
            )
