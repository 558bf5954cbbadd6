"""A model that code makes which is not seen: what wraps it tells that it is one."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint

SCRIPT = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from zoo import build_data, build_model, build_optimizer


def join():
    dist.init_process_group("nccl")


class Trainer:
    def __init__(self, options, model):
        self.rank, self.gpu = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(self.gpu)
        self.model = model.to(self.gpu)
        self.model = DDP(self.model, device_ids=[self.gpu])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        data = build_data(options)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, 8, sampler=self.sampler)

    def fit(self):
        for epoch in range(3):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                self.optimizer.zero_grad()
                self.model(x.cuda(), y.cuda())["loss"].backward()
                self.optimizer.step()
            if self.rank == 0:
                torch.save(self.model.module.state_dict(), "net.pt")


def train(options, net):
    gpu = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(gpu)
    net = net.cuda()
    optimizer = build_optimizer(options, net)
    wrapped = DDP(net, device_ids=[gpu])
    sampler = DistributedSampler(build_data(options))
    loader = DataLoader(build_data(options), 8, sampler=sampler)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(wrapped(x.cuda()), y.cuda()).backward()
            optimizer.step()


def main(options):
    join()
    Trainer(options, build_model(options)).fit()
    train(options, build_model(options))


if __name__ == "__main__":
    main(build_data(None))
"""
KEPT = "        self.optimizer = torch"
ROUND = "    for epoch in range(3):\n        sampler"
FROZEN = "for p in {}.backbone.parameters():\n            p.requires_grad = False\n        sampler"
CASES = {
    "weights that rank 0 loads, before a call that trains": (
        "DDP308",
        KEPT,
        "        if self.rank == 0:\n            self.model.module.load_state_dict(options)\n"
        + KEPT,
        "        self.model.module.load_state_dict(options)\n" + KEPT,
    ),
    "a cast after the wrap, of an attribute that holds both": (
        "DDP302",
        KEPT,
        "        self.model.half()\n" + KEPT,
        "        options.half()\n" + KEPT,
    ),
    "keys of the wrapper": (
        "DDP503",
        "self.model.module.state_dict()",
        "self.model.state_dict()",
        "",
    ),
    "targets that stay in host memory": ("DDP208", "y.cuda()).backward", "y).backward", ""),
    "the model from before the wrap": ("DDP304", "wrapped(x", "net(x", ""),
    "an attribute of what is inside": (
        "DDP309",
        "            optimizer.step()\n\n",
        "            optimizer.step()\n        wrapped.say_epoch(epoch)\n\n",
        "            optimizer.step()\n        wrapped.module.say_epoch(epoch)\n\n",
    ),
    "a part that is frozen, in what code makes the optimizer for that is not seen": (
        "DDP306",
        ROUND,
        ROUND.replace("sampler", FROZEN.format("wrapped.module")),
        ROUND.replace("sampler", FROZEN.format("options")),
    ),
    "a question before a helper starts the group": (
        "DDP423",
        "    join()\n",
        "    print(dist.get_rank())\n    join()\n",
        "    join()\n    print(dist.get_rank())\n",
    ),
    "a sampler that an option leaves out, and shuffle": (
        "DDP103",
        "build_data(options), 8, sampler=sampler",
        "build_data(options), 8, sampler=sampler if options else None, shuffle=True",
        "build_data(options), 8, sampler=sampler if options else None, shuffle=False",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_done_to_it_is_found(name: str, lint_text: Lint) -> None:
    code, old, wrong, right = CASES[name]
    assert SCRIPT.count(old) == 1
    assert lint_text(SCRIPT.replace(old, wrong), select=(code,))
    assert not lint_text(SCRIPT.replace(old, right or old), select=(code,))


def test_the_script_is_right(lint_text: Lint) -> None:
    assert not [one for one in lint_text(SCRIPT) if one.code[3] in "1234"]
