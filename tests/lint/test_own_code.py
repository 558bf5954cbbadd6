"""What a project's own samplers, losses and options do is seen for what it is."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SAMPLER = """
class Parts(torch.utils.data.Sampler):
    def __init__(self, data, parts, part):
        self.data, self.parts, self.part, self.epoch = data, parts, part, 0

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(len(self.data), generator=generator).tolist()
        return iter(order[self.part :: self.parts])

    def __len__(self):
        return len(self.data) // self.parts

    def set_epoch(self, epoch):
        self.epoch = epoch

own = Parts(dataset, world_size, rank)
for epoch in range(epochs):
    {told}
    for x, y in DataLoader(dataset, 8, sampler=own):
        loss = criterion(model(x.to(device)), y.to(device))
        {asked}
        loss.backward()
        optimizer.step()
"""
GATHERING = """
class Chosen(nn.Module):
    def forward(self, scores, y):
        return -scores.gather(1, y[:, None]).mean()

chosen = Chosen()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = chosen(model(x.to(device)), y.to(device))
        {asked}
        loss.backward()
        optimizer.step()
"""
OPTION = """
import argparse, os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

args = argparse.ArgumentParser().parse_args()
args.distributed = "WORLD_SIZE" in os.environ
local_rank = int(os.environ.get("LOCAL_RANK", 0))
if args.distributed:
    torch.cuda.set_device({chosen})
    dist.init_process_group("nccl")
model = torch.nn.Linear(2, 2).cuda()
if args.distributed:
    model = DistributedDataParallel(model, device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 2).cuda()).sum().backward()
optimizer.step()
"""
KEPT = """
model.module.l1 = {layer}
for x, y in loader:
    criterion(model(x.to(device)), y.to(device)).backward()
    optimizer.step()
"""
TOLD = "own.set_epoch(epoch)"
ASKED = "if loss.item() > 10: break"


@pytest.mark.parametrize(
    ("code", "text", "found"),
    [
        ("DDP102", SAMPLER.format(told="pass", asked="pass"), True),
        ("DDP102", SAMPLER.format(told=TOLD, asked="pass"), False),
        ("DDP402", SAMPLER.format(told=TOLD, asked=ASKED), True),
        ("DDP402", GATHERING.format(asked=ASKED), True),
        ("DDP402", GATHERING.format(asked="pass"), False),
        ("DDP307", KEPT.format(layer="nn.Linear(10, 10)"), True),
        ("DDP307", KEPT.format(layer="model.module.l1"), False),
        ("DDP307", KEPT.format(layer="model.unseen"), False),
    ],
)
def test_samplers_and_losses(lint_text: Lint, code: str, text: str, found: bool) -> None:
    codes = [one.code for one in lint_text(SETUPS["distributed"] + text, select=(code,))]
    assert (code in codes) is found


@pytest.mark.parametrize(("chosen", "found"), [("0", True), ("local_rank", False)])
def test_a_gpu_under_the_option_of_the_wrapper(lint_text: Lint, chosen: str, found: bool) -> None:
    codes = [one.code for one in lint_text(OPTION.format(chosen=chosen))]
    assert ("DDP201" in codes) is found


CONFIGURED = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

class Trainer:
    def __init__(self, cfg, loader):
        self.cfg, self.loader = cfg, loader
        self.model = DistributedDataParallel(
            torch.nn.Linear(2, 2).to(cfg.rank), device_ids=[cfg.rank]
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self, cfg):
        for x in self.loader:
            self.model(x).sum().backward()
            self.optimizer.step()
        if {asked}:
            dist.barrier()
"""


@pytest.mark.parametrize(("asked", "found"), [("cfg.rank == 0", True), ("cfg.epochs == 0", False)])
def test_what_a_wrapper_is_told_is_a_rank(lint_text: Lint, asked: str, found: bool) -> None:
    codes = [one.code for one in lint_text(CONFIGURED.format(asked=asked), select=("DDP401",))]
    assert ("DDP401" in codes) is found


HANDED_ON = """
class Batches:
    def __init__(self, held):
        self.held = held

    def _read(self, it):
        for x, y in it:
            yield x.to(device), y.to(device)

    def __iter__(self):
        return self._read(iter(self.held))

batches = Batches(loader)
for epoch in range(epochs):
    {told}
    for x, y in batches:
        loss = criterion(model(x), y)
        {asked}
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("told", "asked", "codes"),
    [
        ("sampler.set_epoch(epoch)", "pass", set()),
        ("pass", "pass", {"DDP102"}),
        ("sampler.set_epoch(epoch)", "if loss.item() > 50: continue", {"DDP402"}),
    ],
)
def test_an_object_hands_batches_on(
    lint_text: Lint, told: str, asked: str, codes: set[str]
) -> None:
    text = SETUPS["distributed"] + HANDED_ON.format(told=told, asked=asked)
    assert {one.code for one in lint_text(text)} == codes


IN_A_STEP = """
from elsewhere.utils import Bar

model = model.module
model = {again}
last, bar = -1, enumerate(loader)
if rank == 0:
    bar = Bar(enumerate(loader))
for i, (x, y) in bar:
    def step():
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    step()
    if i - last > 4:
        last = i
        if last > 20:
            break
"""


@pytest.mark.parametrize(("again", "codes"), [("DDP(model)", set()), ("model", {"DDP304"})])
def test_what_is_wrapped_again(lint_text: Lint, again: str, codes: set[str]) -> None:
    """Nor does a bar of another package around ``enumerate()`` make a number a rank's own."""
    text = SETUPS["distributed"] + IN_A_STEP.format(again=again)
    found = {one.code for one in lint_text(text, select=("DDP303", "DDP304", "DDP402"))}
    assert found == codes


STATE = """
def state_of(model, epoch):
    if isinstance(model, DDP):
        state = {state}
    else:
        state = model.state_dict()
    return {{"model": state, "epoch": epoch}}

def save(state, name):
    torch.save(state, name + ".pt")

if rank == 0:
    save(state_of(model, 1), "last")
"""


@pytest.mark.parametrize(
    ("state", "codes"),
    [("model.state_dict()", {"DDP503"}), ("model.module.state_dict()", set())],
)
def test_a_function_puts_the_state_together(lint_text: Lint, state: str, codes: set[str]) -> None:
    text = SETUPS["distributed"] + STATE.format(state=state)
    assert {one.code for one in lint_text(text, select=("DDP503",))} == codes


EACH_EPOCH = """
for epoch in range(epochs):
    data = TensorDataset({made}, torch.zeros(100).long())
    for x, y in DataLoader(data, 8, sampler=DistributedSampler(data)):
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "codes"),
    [
        ("torch.zeros(100, 10)", {"DDP102"}),
        ("torch.zeros(100, 10) + epoch", set()),
        ("torch.rand(100, 10)", set()),
    ],
)
def test_a_data_set_of_each_epoch(lint_text: Lint, made: str, codes: set[str]) -> None:
    text = SETUPS["distributed"] + EACH_EPOCH.format(made=made)
    assert {one.code for one in lint_text(text, select=("DDP102",))} == codes
