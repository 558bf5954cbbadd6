"""A variable for NCCL is set under a name that nothing reads.

## What it does
Looks for `NCCL_ASYNC_ERROR_HANDLING`, `NCCL_BLOCKING_WAIT` (now `TORCH_NCCL_...`) and
`NCCL_TIMEOUT`, which neither PyTorch nor NCCL reads.

## Why is this bad
The setting has no effect, or will have none soon.

## Example
```python
os.environ["NCCL_TIMEOUT"] = "1800"
```

## Use instead
```python
dist.init_process_group("nccl", timeout=timedelta(minutes=30))
```

## Also fine
The script reads the variable itself.
```python
os.environ["NCCL_TIMEOUT"] = "1800"
limit = int(os.environ["NCCL_TIMEOUT"])
```

## References
https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.launching.variables import RENAMED, UNREAD
from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.side_effects import environment_key


@rule(
    "nccl-env-misnamed",
    group="launch",
    severity=Severity.STYLE,
    applies="single distributed other",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Assignments under old or unknown names."""
    assigned = [(one, one.targets[0].target) for one in script.structure.all(cst.Assign)]
    names = {environment_key(script.facts, target) for _, target in assigned}
    for assign, target in assigned:
        name = environment_key(script.facts, target)
        if name in RENAMED and isinstance(target, cst.Subscript):
            if RENAMED[name] in names:
                continue  # for any version of PyTorch
            key = target.slice[0].slice
            fix = script.replace(key, f'"{RENAMED[name]}"', "use the new name")
            yield Finding(assign, f"this variable is called {RENAMED[name]} now", fix)
        elif name in UNREAD and not _is_read(script):
            yield Finding(assign, "nothing reads NCCL_TIMEOUT: give init_process_group a timeout")


def _is_read(script: Script) -> bool:
    quoted = script.source.text.count('"NCCL_TIMEOUT"') + script.source.text.count("'NCCL_TIMEOUT'")
    return quoted > 1
