"""Each rank names its own folder for the same run.

## What it does
Looks for paths made from the time, a random name or the process number that all ranks write to.

## Why is this bad
The ranks' clocks differ by a moment: at the change of a second they write to different folders.
A checkpoint in parts is incomplete, and what rank 0 wrote, the others do not find.

## Example
```python
out = f"runs/{time.strftime('%Y%m%d-%H%M%S')}"
os.makedirs(out, exist_ok=True)
```
```python
from datetime import datetime
from pathlib import Path
folder = Path("runs") / datetime.now().strftime("%H%M%S")
folder.mkdir(parents=True, exist_ok=True)
```
```python
import tempfile
def prepare():
    out = os.path.join(tempfile.mkdtemp(), "checkpoints")
    torch.save(net.state_dict(), os.path.join(out, "start.pt"))
prepare()
```

## Use instead
```python
name = [time.strftime("%Y%m%d-%H%M%S")]
dist.broadcast_object_list(name, 0)
os.makedirs(f"runs/{name[0]}", exist_ok=True)
```

## Also fine
On rank 0 alone, and a folder that is meant for one rank.
```python
out = f"runs/{time.strftime('%H%M%S')}"
if rank == 0:
    os.makedirs(out, exist_ok=True)
own = f"logs/{time.time()}-rank{rank}"
os.makedirs(own, exist_ok=True)
os.makedirs("runs/fixed", exist_ok=True)
```
```python
started = time.time()
with open("took.txt", "a") as file:
    file.write(str(time.time() - started))
```

A name of the day, which is the same on all ranks.
```python
out = "runs-" + time.strftime("%Y%m%d")
os.makedirs(out, exist_ok=True)
```

What a function that cannot be seen makes of the time may be the same on all ranks.
```python
from somewhere import shared_by_all
out = f"runs/{shared_by_all(time.strftime('%H%M%S'))}"
os.makedirs(out, exist_ok=True)
names = [time.strftime("%H%M%S")]
shared_by_all(names)
os.makedirs(names[0], exist_ok=True)
```
```python
import tempfile
import importlib
with tempfile.TemporaryDirectory() as folder:
    settings = tempfile.NamedTemporaryFile(dir=folder, suffix=".py")
    made = importlib.import_module(os.path.basename(settings.name))
    out = {name: value for name, value in made.__dict__.items()}["out"]
os.makedirs(out, exist_ok=True)
```

## References
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast_object_list
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.days import clocks_apart
from ddpify.lint.scripts.removals import writes_nothing
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.sure_origins import origins
from ddpify.understanding.libraries.paths import path_of
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK

_TEMPORARY = frozenset(
    f"tempfile.{one}" for one in ("TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile")
)
_KINDS = ("save", "folder", "writer", "write")


@rule(
    "per-rank-run-directory",
    group="checkpoint",
    severity=Severity.SILENT,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Folders and files of the time, made by all ranks; once for each time that is taken."""
    known: set[cst.CSTNode | None] = set()
    order = script.structure.order
    effects = [e for e in script.facts.effects.values() if e.site.node in order]
    for effect in sorted(effects, key=lambda e: order[e.site.node]):
        made = effect.kind in _KINDS and not writes_nothing(effect)
        path = path_of(effect) if made else None
        clock = _clock(script, path) if path is not None else None
        if clock is None or clock in known or script.may_be_guarded(effect.site.node):
            continue
        known.add(clock)
        yield Finding(
            effect.site.node, "each rank makes up its own name for this: they write to several"
        )


def _clock(script: Script, path: cst.BaseExpression) -> cst.CSTNode | None:
    """The call that makes a path another on each rank, if nothing makes it the same."""
    sources = list(script.flow.ancestry(path, script.module))
    if any(one.location in script.flow.sanitized for one in sources):
        return None
    if script.flow.sources(path, script.module) & ANY_RANK:
        return None
    apart = {one.node for one in clocks_apart(script, path)}
    made = [one for one in origins(script, path) if one.node in apart]
    return next(
        (x.node for x in made if x.label == CLOCK and not _is_temporary(script, x.node)), None
    )


def _is_temporary(script: Script, made: cst.CSTNode | None) -> bool:
    """``TemporaryDirectory()`` and such, which are there for one process and for a while."""
    return isinstance(made, cst.Call) and bool(_TEMPORARY & script.names(made.func))
