"""Updates and learning rates that the rank decides."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint

HEAD = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(3, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for i in range(10):
    scaler.scale(model(torch.randn(4, 3).cuda()).mean()).backward()
"""


def test_a_scaler_that_steps_on_rank_0_alone(lint_text: Lint) -> None:
    step = "    scaler.step(optimizer)\n    scaler.update()\n"
    own = "    if dist.get_rank() == 0:\n        scaler.step(optimizer)\n    scaler.update()\n"
    assert lint_text(HEAD + own, select=("DDP407",))
    assert not lint_text(HEAD + step, select=("DDP407",))


def test_a_learning_rate_by_rank(lint_text: Lint) -> None:
    rate = "    optimizer.param_groups[0]['lr'] *= 1 + {}\n"
    assert lint_text(HEAD + rate.format("dist.get_rank()"), select=("DDP406",))
    assert not lint_text(HEAD + rate.format("dist.get_world_size()"), select=("DDP406",))


@pytest.mark.parametrize(
    "made",
    [
        "torch.optim.SGD([{{'params': model.parameters(), 'lr': 0.1 * ({} + 1)}}])",
        "torch.optim.SGD([dict(params=model.parameters(), lr=0.1 * ({} + 1))])",
        "optimizer.add_param_group({{'params': model.module.weight, 'lr': 0.1 * ({} + 1)}})",
        "groups = [{{'params': [p], 'lr': 0.1 * ({} + 1)}} for p in model.parameters()]\n"
        "torch.optim.SGD(groups)",
    ],
)
def test_a_groups_learning_rate_by_rank(lint_text: Lint, made: str) -> None:
    assert lint_text(f"{HEAD}{made.format('dist.get_rank()')}\n", select=("DDP406",))
    assert not lint_text(f"{HEAD}{made.format('dist.get_world_size()')}\n", select=("DDP406",))
