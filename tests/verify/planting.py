"""Planting a bug in a converted script.

A bug is a list of replacements (regular expressions). What a script calls its things stands in
angle brackets (``<model>``, see ``Names``), so that one table of bugs fits scripts of one shape:
a loop over a loader, a model, an optimizer, a loss.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ddpify.verify import What

Edits = tuple[tuple[str, str], ...]
OPTIONAL = "(?#optional)"
"""In front of a pattern: not every script has it."""

HELPERS = """
import os, sys
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader as Loader, DistributedSampler
from ddpify.runtime.batchnorm import synchronise_batch_norm
class DDP(DistributedDataParallel):
    def __init__(self, module):
        synchronise_batch_norm(module)
        super().__init__(module)
        for name in vars(type(module)):
            if not hasattr(DistributedDataParallel, name):
                self.__dict__[name] = getattr(module, name)
def spread(loader, divide=True, **options):
    sampler = DistributedSampler(loader.dataset, **options)
    size = loader.batch_size // dist.get_world_size() if divide else loader.batch_size
    return Loader(loader.dataset, batch_size=size, sampler=sampler)
"""


@dataclass(frozen=True)
class Names:
    """What a script calls its things.

    Attributes:
        loader: The loader that is trained on.
        test_loader: The loader that is evaluated on.
        model: The model.
        optimizer: Its optimizer.
        scheduler: Its scheduler.
        loss: What backward is called on.
        output: What the model gives.
        data: What the model is given.
        batch: The number of a batch.
        late: True at one batch towards the end, where ``leave`` ends the loop.
        leave: A statement that ends the loop over the batches.
        test: The call that evaluates.
        once: A statement that runs once an epoch.
    """

    loader: str = "train_loader"
    test_loader: str = "test_loader"
    model: str = "model"
    optimizer: str = "optimizer"
    scheduler: str = "scheduler"
    loss: str = "loss"
    output: str = "output"
    data: str = "data"
    batch: str = "batch_idx"
    late: str = "batch_idx == 2 and epoch == 2"
    leave: str = "return"
    test: str = "test(model, device, test_loader)"
    once: str = "scheduler.step()"


@dataclass(frozen=True)
class Bug:
    """A planted bug.

    Attributes:
        name: What it is.
        edits: Replacements in the converted script.
        what: The kinds of difference that may come first.
        rule: The code that must come first among the suspected rules.
        before: Replacements in the original, before it is converted.
        both: Replacements in the original and in the converted script.
        note: The bug is slow, not wrong: a note must name the rule instead.
        needs: What a script needs that not all have; empty where a fixture has it.
    """

    name: str
    edits: Edits
    what: tuple[What, ...]
    rule: str
    before: Edits = ()
    both: Edits = ()
    note: bool = False
    needs: str = ""


class NotApplicable(ValueError):
    """A script lacks what a bug changes."""


def plant(source: str, edits: Edits, names: Names) -> str:
    """``source`` with every replacement made; raises NotApplicable where one finds nothing."""
    for pattern, new in edits:
        found = _filled(pattern, names, re.escape)
        source, count = re.subn(found, _filled(new, names, str), source, flags=re.MULTILINE)
        if not count and not pattern.startswith(OPTIONAL):
            raise NotApplicable(f"nothing to replace: {found}")
    return source


def _filled(text: str, names: Names, written: Callable[[str], str]) -> str:
    for key, name in asdict(names).items():
        text = text.replace(f"<{key}>", written(name))
    return text


def plant_converted(source: str, bug: Bug, names: Names) -> str:
    """The converted script with the bug and with the names that the bugs use."""
    source = plant(plant(source, bug.both, names), bug.edits, names)
    place = "from ddpify import runtime as dd\n"
    return source.replace(place, place + HELPERS, 1)
