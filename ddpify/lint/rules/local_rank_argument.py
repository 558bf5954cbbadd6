"""The option for the local rank has one spelling of two.

## What it does
Looks for `add_argument("--local_rank")` without `"--local-rank"`.

## Why is this bad
Since PyTorch 2.0 torch.distributed.launch passes `--local-rank`, which the parser then refuses;
torchrun passes nothing, and every rank takes the default.

## Example
```python
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
```

## Use instead
```python
parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", type=int, default=int(os.environ["LOCAL_RANK"]))
```

## Also fine
```python
local_rank = int(os.environ["LOCAL_RANK"])
```

## Fix safety
Safe: both spellings set `args.local_rank`.

## References
https://docs.pytorch.org/docs/stable/distributed.html#launch-utility
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.script import Script


@rule("local-rank-argument", group="launch", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Declarations of one spelling alone."""
    for call in script.method_calls("add_argument"):
        names = [a.value for a in call.args if a.keyword is None]
        texts = [n.evaluated_value for n in names if isinstance(n, cst.SimpleString)]
        if "--local_rank" not in texts or "--local-rank" in texts:
            continue
        first = next(
            n
            for n in names
            if isinstance(n, cst.SimpleString) and n.evaluated_value == "--local_rank"
        )
        quote = first.quote
        text = f"{quote}--local-rank{quote}, {quote}--local_rank{quote}"
        yield Finding(
            first,
            "torch.distributed.launch passes --local-rank since PyTorch 2.0: this parser"
            " refuses it",
            script.replace(first, text, "accept both spellings"),
        )
