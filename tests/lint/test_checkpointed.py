"""A backward within the wrapper's backward is told where DistributedDataParallel fails by it.

Each of these was run on two processes: those that fail are found, the others are not.
"""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

HEAD = """
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 10)
        self.middle = nn.Linear(10, 10)
        self.blocks = nn.ModuleList(nn.Linear(10, 10) for _ in range(3))
        self.again = False

    def tail(self, x):
        return checkpoint(self.middle, x, use_reentrant=True)

    def forward(self, x, extra=None):
"""
TAIL = """
        return x.mean(1)

model = DDP(Deep().to(device), device_ids=[local_rank]{given})
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
WORKS = {
    "a block each": (
        "x = self.first(x)\n"
        "for block in self.blocks:\n    x = checkpoint(block, x, use_reentrant=True)"
    ),
    "a block each, in a list": (
        "x = self.first(x)\n"
        "x = sum([checkpoint(block, x, use_reentrant=True) for block in self.blocks])"
    ),
    "a layer by its number": (
        "x = self.first(x)\nfor i in range(3):\n"
        "    block = self.blocks[i]\n    x = checkpoint(block, x, use_reentrant=True)"
    ),
    "two layers": "x = self.first(x)\nx = checkpoint(self.middle, x)\nx = checkpoint(nn.Tanh(), x)",
    "a function of its own": "x = self.tail(self.first(x))",
    "one of two ways": (
        "x = self.first(x)\nif self.again:\n    x = checkpoint(self.middle, x)\n"
        "else:\n    x = checkpoint(self.middle, x * 2)"
    ),
    "an input that asks": "x = x.requires_grad_()\nx = checkpoint(self.first, x)",
    "a second input that asks": "x = checkpoint(lambda a, b: a + b, x, self.first(x))",
    "a part of the layers": (
        "x = self.first(x)\nx = checkpoint_sequential(self.blocks, 2, x, use_reentrant=True)"
    ),
}
FAILS = {
    "the batch": "x = checkpoint(self.first, x, use_reentrant=True)",
    "the batch, twice given": "x = checkpoint(lambda a, b: self.first(a), x, extra)",
    "the batch, in a function": "x = self.tail(x)",
    "the batch, through all layers": "x = checkpoint_sequential(self.blocks, 2, x)",
    "a layer twice": "x = checkpoint(self.middle, self.first(x))\nx = checkpoint(self.middle, x)",
    "a layer in rounds": (
        "x = self.first(x)\nfor _ in range(3):\n    x = checkpoint(self.middle, x)"
    ),
    "a layer on parts": (
        "total = 0\nfor one in self.first(x).split(2):\n"
        "    total = total + checkpoint(self.middle, one).mean()\nx = x + total"
    ),
    "a layer on parts, in a list": (
        "x = torch.cat([checkpoint(self.middle, one) for one in self.first(x).split(2)])"
    ),
}


def _found(lint_text: Lint, forward: str, given: str = "", *, strict: bool = False) -> bool:
    lines = "".join(f"        {line}\n" for line in forward.splitlines())
    text = SETUPS["distributed"] + HEAD + lines + TAIL.format(given=given)
    return bool(lint_text(text, select=("DDP319",), strict=strict))


@pytest.mark.parametrize("name", WORKS)
def test_a_layer_once_is_ready_once(name: str, lint_text: Lint) -> None:
    assert not _found(lint_text, WORKS[name])
    assert _found(lint_text, WORKS[name], strict=True)


@pytest.mark.parametrize("name", FAILS)
def test_what_is_ready_twice_or_never(name: str, lint_text: Lint) -> None:
    assert _found(lint_text, FAILS[name])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (", find_unused_parameters=True", True),
        (", find_unused_parameters=False", False),
        (", find_unused_parameters=True, static_graph=True", False),
        (", static_graph=True", False),
    ],
)
def test_who_looks_for_unused_parameters(given: str, found: bool, lint_text: Lint) -> None:
    assert _found(lint_text, WORKS["a block each"], given) is found


def test_a_static_graph_takes_a_layer_twice(lint_text: Lint) -> None:
    assert not _found(lint_text, FAILS["a layer twice"], ", static_graph=True")
    assert _found(lint_text, FAILS["the batch"], ", static_graph=True")
