"""Samplers that derive from a DistributedSampler, with an order of their own, need the epoch."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

OWN = """
class Own(DistributedSampler):
    def __iter__(self):
{}

own = Own(dataset)
batches = DataLoader(dataset, 32, sampler=own)
for epoch in range(epochs):
    pass
    for x, y in batches:
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
ORDERS = {
    "by the epoch": """
        g = torch.Generator()
        g.manual_seed(self.seed + self.epoch)
        order = torch.randperm(len(self.dataset), generator=g).tolist()
        return iter(order[self.rank :: self.num_replicas])
""",
    "by another library": """
        order = np.random.RandomState(self.epoch).permutation(len(self.dataset))
        return iter(order[self.rank :: self.num_replicas].tolist())
""",
    "of the base": """
        return iter(sorted(super().__iter__(), key=lambda one: one // 100))
""",
}
NEEDS_NO_EPOCH = {
    "in order": """
        return iter(range(self.rank, len(self.dataset), self.num_replicas))
""",
    "by a generator that goes on": """
        order = self.random.permutation(len(self.dataset))
        return iter(order[self.rank :: self.num_replicas].tolist())
""",
    "by the epoch, which it counts itself": """
        g = torch.Generator()
        g.manual_seed(self.epoch)
        self.epoch += 1
        order = torch.randperm(len(self.dataset), generator=g).tolist()
        return iter(order[self.rank :: self.num_replicas])
""",
}


def _found(lint_text: Lint, order: str, told: str = "pass") -> bool:
    text = SETUPS["distributed"] + OWN.format(order.strip("\n")).replace("    pass", f"    {told}")
    return bool(lint_text(text, select=("DDP102",)))


@pytest.mark.parametrize("order", ORDERS)
def test_it_is_to_be_told_the_epoch(order: str, lint_text: Lint) -> None:
    assert _found(lint_text, ORDERS[order])
    assert not _found(lint_text, ORDERS[order], "own.set_epoch(epoch)")


@pytest.mark.parametrize("order", NEEDS_NO_EPOCH)
def test_it_needs_no_epoch(order: str, lint_text: Lint) -> None:
    assert not _found(lint_text, NEEDS_NO_EPOCH[order])
