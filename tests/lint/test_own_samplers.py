"""Samplers of the project: orders without the rank, of the rank's own, or that never change."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

RULES = ("DDP101", "DDP102", "DDP109", "DDP604")
TEXT = """
class Order(torch.utils.data.Sampler):
    def __init__(self, data, rank, world, seed=0):
        self.n, self.rank, self.world, self.seed = len(data), rank, world, seed
        self.epoch = 0
        self.own = list(range(self.n))[self.rank::self.world]

    def __iter__(self):
{order}

    def part(self, order):
        return order[self.rank::self.world]

    def __len__(self):
        return self.n // self.world

    def set_epoch(self, epoch):
        self.epoch = epoch

order = Order(dataset, rank, world_size)
loader = DataLoader(dataset, {given}=order)
for epoch in range(epochs):
    order.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""
DRAWN = ["g = torch.Generator()", "g.manual_seed(self.seed + self.epoch)",
         "drawn = torch.randperm(self.n, generator=g).tolist()"]  # fmt: skip
BY_RANK = [DRAWN[0], "g.manual_seed(self.epoch + self.rank)", DRAWN[2]]
ORDERS: dict[str, tuple[list[str], str | None]] = {
    "every n-th": ([*DRAWN, "return iter(drawn[self.rank::self.world])"], None),
    "by a method": ([*DRAWN, "return iter(self.part(drawn))"], None),
    "a block": (
        [*DRAWN, "first = self.rank * len(self)", "return iter(drawn[first:first + len(self)])"],
        None,
    ),
    "with replacement, for each rank its own": (
        [*BY_RANK[:2], "return iter(torch.randint(self.n, (9,), generator=g).tolist())"],
        None,
    ),
    "its own part, in an order of its own": (
        [*BY_RANK[:2], "return iter([self.own[i] for i in torch.randperm(3, generator=g)])"],
        None,
    ),
    "the first part for all": ([*DRAWN, "return iter(drawn[:len(self)])"], "DDP109"),
    "all orders differ": ([*BY_RANK, "return iter(drawn[self.rank::self.world])"], "DDP604"),
    "by NumPy": (
        [
            "drawn = np.random.default_rng(self.epoch + self.rank).permutation(self.n)",
            "return iter(drawn[self.rank::self.world].tolist())",
        ],
        "DDP604",
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_what_orders_are_made_of(name: str, lint_text: Lint) -> None:
    lines, code = ORDERS[name]
    found = lint_text(_text(lines), select=RULES)
    assert [one.code for one in found] == ([code] if code else [])


@pytest.mark.parametrize("name", ["every n-th", "by a method", "a block"])
def test_an_order_that_is_never_told_the_epoch(name: str, lint_text: Lint) -> None:
    lines, _ = ORDERS[name]
    text = _text(lines).replace("order.set_epoch(epoch)", "pass")
    assert [one.code for one in lint_text(text, select=RULES)] == ["DDP102"]
    counted = text.replace("g = torch", "self.epoch += 1\n        g = torch")
    assert lint_text(counted, select=RULES) == []


def test_batches(lint_text: Lint) -> None:
    lines = [*DRAWN, "for i in range(self.rank, self.n - 8, 8 * self.world):",
             "    yield drawn[i:i + 8]"]  # fmt: skip
    right = _text(lines).replace("DataLoader(dataset, sampler", "DataLoader(dataset, batch_sampler")
    assert lint_text(right, select=RULES) == []
    never = right.replace("order.set_epoch(epoch)", "pass")
    assert [one.code for one in lint_text(never, select=RULES)] == ["DDP102"]
    same = right.replace("range(self.rank, self.n - 8, 8 * self.world)", "range(0, len(self), 8)")
    assert [one.code for one in lint_text(same, select=RULES)] == ["DDP109"]


def test_a_data_set_that_is_split_already(lint_text: Lint) -> None:
    lines, _ = ORDERS["the first part for all"]
    part = "mine = torch.utils.data.Subset(dataset, range(rank, 100, world_size))\norder = Order("
    text = (
        _text(lines).replace("order = Order(", part).replace("dataset, sampler=", "mine, sampler=")
    )
    assert lint_text(text, select=RULES) == []


def _text(order: list[str]) -> str:
    inside = "\n".join(f"        {line}" for line in order)
    return SETUPS["distributed"] + TEXT.replace("{order}", inside).replace("{given}", "sampler")


SWITCHED = """
class Order(torch.utils.data.Sampler):
    def __init__(self, data, rank, world, shuffle=True):
        self.n, self.rank, self.world, self.shuffle = len(data), rank, world, shuffle
        self.epoch = 0

    def __iter__(self):
        drawn = list(range(self.n))
        {test}
            g = torch.Generator()
            g.manual_seed(self.epoch)
            drawn = torch.randperm(self.n, generator=g).tolist()
        return iter(drawn[self.rank::self.world])

    def set_epoch(self, epoch):
        self.epoch = epoch

order = Order(dataset, rank, world_size{given})
loader = DataLoader(dataset, sampler=order)
for epoch in range(epochs):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "given", "found"),
    [
        ("if self.shuffle:", ", shuffle=False", False),
        ("if not self.shuffle:", ", shuffle=True", False),
        ("if self.shuffle:", "", True),
        ("if self.shuffle:", ", shuffle=bool(args.shuffle)", True),
        ("if self.n > 3:", ", shuffle=False", True),
    ],
)
def test_an_order_that_is_drawn_where_it_is_told_to(
    test: str, given: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"] + SWITCHED.replace("{test}", test).replace("{given}", given)
    assert ("DDP102" in [one.code for one in lint_text(text, select=RULES)]) is found


WITHIN = """
class Batches(torch.utils.data.Sampler):
    def __init__(self, sampler, size):
        self.sampler, self.size = sampler, size

    def __iter__(self):
        found = []
        for one in self.sampler:
            found.append(one)
            if len(found) == self.size:
                yield found
                found = []

batches = Batches({sampler}, 8)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(dataset, batch_sampler=batches):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("sampler", "found"),
    [("sampler", False), ("torch.utils.data.RandomSampler(dataset)", True)],
)
def test_batches_of_another_sampler(sampler: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + WITHIN.replace("{sampler}", sampler)
    assert ("DDP109" in [one.code for one in lint_text(text, select=RULES)]) is found
