"""A layer that an option of its class makes is there where some call gives that option."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

SCRIPT = """
class Normed(nn.Module):
    def __init__(self, size, kind="layer"):
        super().__init__()
        if kind == "layer":
            self.norm = nn.LayerNorm(size)
        elif kind == "batch":
            self.norm = nn.BatchNorm1d(size)
        self.net = Net()

    def forward(self, x):
        return self.net(self.norm(x))

loader = DataLoader(dataset, 8, sampler=sampler)
whole = DDP(Normed(10{}).to(device), device_ids=[local_rank])
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(whole(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("given", "count"), [("", 0), (", 'layer'", 0), (", kind='layer'", 0),
                                              (", 'batch'", 1), (", kind='batch'", 1),
                                              (", kind=os.environ['NORM']", 1)])  # fmt: skip
def test_batch_normalisation_that_an_option_makes(lint_text: Lint, given: str, count: int) -> None:
    text = SETUPS["distributed"] + SCRIPT.format(given)
    assert len(lint_text(text, select=("DDP312",))) == count
