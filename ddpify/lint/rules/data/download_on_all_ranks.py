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


@rule(
    "download-on-all-ranks",
    group="data",
    severity=Severity.CRASH,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Downloads that no rank does first."""
    for effect in script.facts.effects.values():
        node = effect.site.node
        if effect.kind != "download" or effect.site.module is not script.module:
            continue
        if effect.name.startswith(_HARMLESS):
            continue
        if not _excused(script, effect):
            yield Finding(node, "all ranks download at once, into the same files")


def _excused(script: Script, effect: Effect) -> bool:
    if script.may_be_guarded(effect.site.node):
        return True
    if any(script.control.takes_turns(one.node) for one in (effect.site, *effect.calls)):
        return True
    structure = script.structure_of(effect.site.node)
    return any(isinstance(above, cst.With) for above in structure.up(effect.site.node))
