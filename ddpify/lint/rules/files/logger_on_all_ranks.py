"""Every rank keeps its own log of the same run.

## What it does
Looks for `SummaryWriter`, `wandb.init`, and the runs of other loggers, that all ranks reach, and
for a log file of `logging.basicConfig` or `logging.FileHandler` that all of them write.

## Why is this bad
N processes write N event files, or N runs, each with its own part of the numbers.

## Example
```python
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("runs")
```

```python
import logging
logging.basicConfig(filename="train.log", level=logging.INFO)
logging.info("begins")
```

```python
import logging
log = logging.getLogger("train")
log.addHandler(logging.FileHandler("train.log"))
```

## Use instead
```python
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("runs") if rank == 0 else None
```

## Also fine
```python
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(f"runs/{rank}")
```

```python
import logging
logging.basicConfig(filename=f"train{rank}.log", level=logging.INFO)
```
```python
import logging
logging.basicConfig(filename="train.log", level=logging.INFO if rank == 0 else logging.WARN)
```
```python
import logging
log = logging.getLogger("train")
log.setLevel(logging.INFO if rank == 0 else logging.WARN)
log.addHandler(logging.FileHandler("train.log"))
```

## References
https://docs.pytorch.org/docs/stable/tensorboard.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.repairs import runtime
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.surely_ranks import surely_asks_rank
from ddpify.understanding.libraries.actions import WRITERS
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import ANY_RANK

_HANDLERS = (
    "logging.FileHandler",
    "logging.handlers.RotatingFileHandler",
    "logging.handlers.TimedRotatingFileHandler",
)


@rule(
    "logger-on-all-ranks",
    group="checkpoint",
    severity=Severity.STYLE,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Writers and runs that each rank starts."""
    for call in script.calls(*WRITERS, "wandb.init"):
        if script.has_runtime and "wandb.init" in script.names(call.func):
            continue  # the runtime has switched it off on other ranks
        if not script.may_be_guarded(call) and not _names_rank(script, call):
            yield Finding(call, "every rank keeps its own log of the run", _fix(script, call))
    for call in _log_files(script):
        if not script.may_be_guarded(call) and not _names_rank(script, call):
            yield Finding(call, "all ranks write into one log file: each line comes once for each")


def _log_files(script: Script) -> Iterator[cst.Call]:
    """The calls that open a file for what is logged."""
    for call in script.calls("logging.basicConfig"):
        if any(True for _ in script.arguments(call, "filename")):
            yield call
    levels = script.method_calls("setLevel", everywhere=True)
    if not any(surely_asks_rank(script.control, one.args[0].value) for one in levels if one.args):
        yield from script.calls(*_HANDLERS)


def _fix(script: Script, call: cst.Call) -> Fix | None:
    dd = runtime(script)
    if dd is None or not isinstance(script.structure.parents.get(call), cst.Assign):
        return None
    text = f"{code_of(call)} if {dd}.is_main() else {dd}.silent()"
    return script.replace(call, text, "keep the log of rank 0", Applicability.SAFE)


def _names_rank(script: Script, call: cst.Call) -> bool:
    return any(script.flow.sources(a.value, script.module) & ANY_RANK for a in call.args)
