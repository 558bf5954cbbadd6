"""torch.distributed.launch is deprecated.

## What it does
Looks for `python -m torch.distributed.launch` in shell scripts, batch files and Makefiles, and in
commands that a script runs.

## Why is this bad
It is deprecated in favour of torchrun, and passes `--local-rank` to the script.

## Example
```python
subprocess.run("python -m torch.distributed.launch --nproc_per_node=2 train.py", shell=True)
```

## Use instead
```python
subprocess.run("torchrun --nproc_per_node=2 train.py", shell=True)
```

## Also fine
Text that is not run.
```python
usage = "formerly: python -m torch.distributed.launch train.py"
```

## Fix safety
Safe in launch files where `--use-env` is given; else the script must read LOCAL_RANK.

## References
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk

_RUNS = ("subprocess.", "os.system", "os.popen", "os.execvp")


@rule(
    "distributed-launch",
    group="deprecated",
    severity=Severity.STYLE,
    applies="single distributed other",
    fixes="safe unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Commands that a script runs."""
    for call in script.calls(*_RUNS):
        for node in walk(call):
            if isinstance(node, cst.SimpleString) and "torch.distributed.launch" in node.value:
                yield Finding(node, "torch.distributed.launch is deprecated: use torchrun")
