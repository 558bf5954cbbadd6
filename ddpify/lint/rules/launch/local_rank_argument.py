"""The option for the local rank does not work with every launcher.

## What it does
Looks for `add_argument("--local_rank")` without `"--local-rank"`, and for a default that is the
same on every rank in a project that does not read `LOCAL_RANK` otherwise, and that torchrun starts
as far as its files say.

## Why is this bad
Since PyTorch 2.0 torch.distributed.launch passes `--local-rank`, which the parser then refuses;
torchrun passes nothing, and every rank takes the default.

Where a README, requirements or an environment ask for an older PyTorch, where torchrun or the
old launcher with `--use_env` starts the script, or where commands start it, or any other, without
that launcher, the first is reported with `--strict` alone.

## Example
```python
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()
print(args.local_rank)
```

```python strict
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
```

```python bare
# torchrun --nproc-per-node 2 train.py
import argparse
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", type=int, default=-1)
args = parser.parse_args()
torch.cuda.set_device(args.local_rank)
dist.init_process_group("nccl")
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

```python
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()
print(os.environ["LOCAL_RANK"])
```

```python
parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", type=int, default=int(os.environ["LOCAL_RANK"]))
parser.add_argument("--local_rank", type=int, default=int(os.environ["LOCAL_RANK"]))
args = parser.parse_args()
print(args.local_rank)
```

## Fix safety
Safe: both spellings set `args.local_rank`, and what a launcher passes still wins over the default.

## References
https://docs.pytorch.org/docs/stable/distributed.html#launch-utility
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Edit, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.rendezvous import speaks_of_torchrun
from ddpify.lint.scripts.repairs import add_argument, import_of
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.versions import depends_on_version
from ddpify.understanding.syntax import code_of
from ddpify.understanding.texts import (
    is_for_old_torch,
    is_launched,
    is_passed_no_rank,
    names_another_start,
)

_SPELLINGS = ("--local_rank", "--local-rank")


@rule(
    "local-rank-argument",
    group="launch",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="safe unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Declarations of one spelling alone, or with a default that launchers do not set."""
    if script.module.path.suffix == ".ipynb":
        return  # no launcher starts it
    for call in script.method_calls("add_argument"):
        names = [a.value for a in call.args if a.keyword is None]
        known = {n.evaluated_value: n for n in names if isinstance(n, cst.SimpleString)}
        if not any(spelling in known for spelling in _SPELLINGS) or depends_on_version(
            script.control, call
        ):
            continue
        yield from _of_option(script, call, known)


def _of_option(
    script: Script, call: cst.Call, known: dict[str | bytes, cst.SimpleString]
) -> Iterator[Finding]:
    """What one launcher does not get over, and what another one leaves out."""
    is_read = _is_read(script)
    may_get_it = is_read or not script.control.spawned
    refuses = "--local-rank" not in known and may_get_it and _refuses_others(script, call)
    sure = _certainty(script, is_read) if refuses else Confidence.POSSIBLE
    if refuses:
        yield _spelling(script, known["--local_rank"], sure)
    if is_read and not _reads_the_environment(script):
        # Where the old launcher is refused, that is what stops the script first. Where it is
        # not, the script runs with that one.
        stopped = sure > Confidence.POSSIBLE or bool(script.control.spawned)
        yield Finding(
            call,
            "torchrun does not pass this option: every rank takes the default",
            _default(script, call),
            confidence=Confidence.POSSIBLE if stopped else _torchrun(script),
        )


def _torchrun(script: Script) -> Confidence:
    """How sure it is that torchrun starts the script, and not the old launcher."""
    if is_passed_no_rank(script.module.path, script.texts):
        return Confidence.CERTAIN
    return Confidence.LIKELY if speaks_of_torchrun(script) else Confidence.POSSIBLE


def _refuses_others(script: Script, call: cst.Call) -> bool:
    """Whether the parser fails at an option that it does not know.

    ``parse_known_args`` leaves such options to others, and another call may declare it.
    """
    assert isinstance(call.func, cst.Attribute)
    parser = set(script.value(call.func.value).atoms)
    return not any(
        isinstance(one.func, cst.Attribute)
        and not parser.isdisjoint(script.value(one.func.value).atoms)
        and (one.func.attr.value == "parse_known_args" or _declares(one, _SPELLINGS[1]))
        for one in script.method_calls("parse_known_args", "add_argument", everywhere=True)
    )


def _declares(call: cst.Call, option: str) -> bool:
    given = (one.value for one in call.args if one.keyword is None)
    return any(isinstance(one, cst.SimpleString) and one.evaluated_value == option for one in given)


def _is_read(script: Script) -> bool:
    """Whether the project reads ``args.local_rank``, and does not set it in ranks of its own."""
    read = False
    for file, structure in script.structures.items():
        for node in structure.all(cst.Attribute, cst.SimpleString):
            if isinstance(node, cst.SimpleString):
                read = read or node.evaluated_value == "local_rank"
            elif node.attr.value == "local_rank":
                is_set = isinstance(file.parents.get(node), cst.AssignTarget)
                if is_set and script.control.spawned:
                    return False
                read = read or not is_set
    return read


def _certainty(script: Script, is_read: bool) -> Confidence:
    """How sure it is that the old launcher of a new PyTorch starts the script.

    An option that nothing reads, or of a script that starts its ranks itself, may be left from
    another launcher than the one in use.
    """
    if not is_read or script.control.spawned:
        return Confidence.POSSIBLE
    path, texts = script.module.path, script.texts
    in_code = any("distributed.launch" in file.source.text for file in script.project.files)
    if is_passed_no_rank(path, texts) or (not in_code and names_another_start(path, texts)):
        return Confidence.POSSIBLE
    if script.requires_torch(2, 0):
        launched = is_launched([script.module.path], script.texts)
        return Confidence.CERTAIN if launched else Confidence.LIKELY
    return Confidence.POSSIBLE if is_for_old_torch(script.texts) else Confidence.LIKELY


def _spelling(script: Script, first: cst.SimpleString, sure: Confidence) -> Finding:
    quote = first.quote
    text = f"{quote}--local-rank{quote}, {quote}--local_rank{quote}"
    return Finding(
        first,
        "torch.distributed.launch passes --local-rank since PyTorch 2.0: this parser refuses it",
        script.replace(first, text, "accept both spellings"),
        confidence=sure,
    )


def _reads_the_environment(script: Script) -> bool:
    """Whether some file of the project asks for the variable, which is then this option's value."""
    return any("LOCAL_RANK" in file.source.text for file in script.project.files)


def _default(script: Script, call: cst.Call) -> Fix | None:
    """Take the default from what torchrun sets."""
    given = next(iter(script.arguments(call, "default")), None)
    old = code_of(given.value) if given is not None else "0"
    name, edits = import_of(script, "os")
    text = f'int({name}.environ.get("LOCAL_RANK", {old}))'
    title = "take the default from LOCAL_RANK"
    if given is None:
        made = add_argument(script, call, f"default={text}", title, Applicability.UNSAFE)
        return Fix(title, (*edits, *made.edits), Applicability.UNSAFE)
    start, end = script.positions.offsets(given.value)
    return Fix(title, (*edits, Edit(start, end, text)))
