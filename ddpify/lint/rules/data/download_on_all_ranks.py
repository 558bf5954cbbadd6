"""All ranks download the same files at once.

## What it does
Looks for downloads (`download=True`, `urlretrieve`) that every rank reaches. `torch.hub` writes
aside and renames, which is safe.

## Why is this bad
The ranks of a node write the same file at the same time; one reads what another has half written.

## Example
```python
import torchvision
data = torchvision.datasets.CIFAR10("data", download=True)
```

## Use instead
```python
import torchvision
if local_rank == 0:
    torchvision.datasets.CIFAR10("data", download=True)
dist.barrier()
data = torchvision.datasets.CIFAR10("data")
```

## Also fine
```python
import torchvision
data = torchvision.datasets.CIFAR10("data", download=rank == 0)
```

Two parts of a data set that come in the same files are reported once.

## References
https://docs.pytorch.org/vision/stable/datasets.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.facts import Effect
from ddpify.understanding.syntax import argument, code_of

# What reads, and what PyTorch writes aside and renames, so that ranks cannot meet half a file.
_HARMLESS = (
    "zipfile.",
    "tarfile.",
    "requests.",
    "urllib.request.urlopen",
    "six.moves.urllib.request.urlopen",
    "torch.hub.",
    "torch.utils.model_zoo.",
    "nltk.",
)
# Of these, the parts for training and for tests are in the same files, or come together.
_WHOLE = frozenset(
    f"torchvision.datasets.{name}" for name in "MNIST FashionMNIST KMNIST CIFAR10 CIFAR100".split()
)


@rule(
    "download-on-all-ranks",
    group="data",
    severity=Severity.CRASH,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Downloads that no rank does first."""
    loaded = list[cst.CSTNode]()
    for effect in script.facts.effects.values():
        node = effect.site.node
        if effect.kind != "download" or effect.site.module is not script.module:
            continue
        if effect.name.startswith(_HARMLESS):
            continue
        if _excused(script, effect) or any(_is_there(script, one, node) for one in loaded):
            continue
        loaded.append(node)
        yield Finding(node, "all ranks download at once, into the same files")


def _is_told(script: Script, node: cst.CSTNode) -> bool:
    """Whether a call surely downloads: not by ``download=rank == 0``, nor by an option."""
    given = argument(node, "download") if isinstance(node, cst.Call) else None
    return given is None or script.value(given.value).constant() is True


def _is_there(script: Script, first: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether an earlier download has brought all files of a data set, both for training and for
    tests: ``MNIST(root, train=False, download=True)`` after ``MNIST(root, download=True)``.
    """
    structure = script.structure_of(node)
    pair = [one for one in (first, node) if isinstance(one, cst.Call)]
    return (
        len(pair) == 2
        and bool(script.names(pair[0].func) & script.names(pair[1].func) & _WHOLE)
        and _folder(pair[0]) == _folder(pair[1])
        and structure.function(first) is structure.function(node)
        and structure.order[first] < structure.order[node]
        and not script.control.guards(first)
    )


def _folder(call: cst.Call) -> str:
    """Where a data set is, as it is written."""
    given = argument(call, "root", 0)
    return code_of(given.value) if given is not None else ""


def _excused(script: Script, effect: Effect) -> bool:
    if script.may_be_guarded(effect.site.node) or not _is_told(script, effect.site.node):
        return True
    if any(script.control.takes_turns(one.node) for one in (effect.site, *effect.calls)):
        return True
    structure = script.structure_of(effect.site.node)
    return any(isinstance(above, cst.With) for above in structure.up(effect.site.node))
