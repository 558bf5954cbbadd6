"""Right code, in forms that were once reported: epochs that the sampler is told, or need not be."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import SHORTENED, STEP, findings
from tests.lint.setups import SETUPS

RIGHT = {
    "data of each epoch's own": """
for epoch in range(epochs):
    rows = TensorDataset(torch.load(f"part-{epoch}.pt", map_location="cpu"))
    for x, y in DataLoader(rows, 32, sampler=DistributedSampler(rows)):
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "a single epoch, by a name": """
most = 1
for epoch in range(most):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "other ways to tell the epoch": """
def fit(samples):
    for x, y in samples:
        criterion(model(x), y).backward()
        optimizer.step()

one, two = DistributedSampler(dataset), DistributedSampler(dataset)
first, second = DataLoader(dataset, 32, sampler=one), DataLoader(dataset, 32, sampler=two)
for epoch in range(epochs):
    one.epoch = epoch
    tell = getattr(second.sampler, "set_epoch", None)
    if callable(tell):
        tell(epoch)
    fit(first)
    fit(second)
    fit(DataLoader(dataset, 32, sampler=DistributedSampler(dataset, seed=epoch)))
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


def test_a_sampler_that_is_told_the_epoch_through_its_loader(lint_text: Lint) -> None:
    told = STEP.replace("sampler.set_epoch", "loader.batch_sampler.sampler.set_epoch")
    found = lint_text(SETUPS["distributed"] + told)
    assert [one for one in found if one.code != SHORTENED] == []


@pytest.mark.parametrize(
    ("shuffle", "found"), [("", True), (", shuffle=True", True), (", shuffle=pick()", False)]
)
def test_a_sampler_that_may_not_shuffle(shuffle: str, found: bool, lint_text: Lint) -> None:
    text = "from elsewhere import pick\n" + SETUPS["distributed"] + STEP
    text = text.replace("    sampler.set_epoch(epoch)\n", "").replace(
        "DistributedSampler(dataset)", f"DistributedSampler(dataset{shuffle})"
    )
    assert [one.code for one in lint_text(text, select=("DDP102",))] == ["DDP102"] * found


def test_an_epoch_that_is_told_by_another_name(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
def run(count):
    step = 0
    for epoch in range(count):
        {told}
        loader.sampler.set_epoch({number})
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
        step += 1

run(epochs)
"""
    )
    for told, number in (("at = epoch", "at"), ("pass", "step"), ("pass", "count - epoch")):
        changed = text.replace("{told}", told).replace("{number}", number)
        assert not lint_text(changed, select=("DDP102",))
    for number in ("count", "epochs", "3"):
        same = text.replace("{told}", "pass").replace("{number}", number)
        assert lint_text(same, select=("DDP102",))


IN_TURN = """
class InTurn:
    def __init__(self, loaders):
        self.loaders = loaders
        self.running = {name: iter(one) for name, one in loaders.items()}

    def __len__(self):
        return sum(len(one) for one in self.loaders.values())

    def __iter__(self):
        for step in range(len(self)):
            name = "a" if step % 2 else "b"
            try:
                batch = next(self.running[name])
            except StopIteration:
                self.running[name] = iter(self.loaders[name])
                batch = next(self.running[name])
            yield name, batch

both = InTurn({"a": loader, "b": DataLoader(dataset, 8, sampler=DistributedSampler(dataset))})
for epoch in range(epochs):
    {told}
    for name, (x, y) in both:
        loss = criterion(model(x), y)
        if loss.item() {asked}:
            continue
        loss.backward()
        optimizer.step()
"""


def test_a_loader_of_the_project_that_takes_others_in_turn(lint_text: Lint) -> None:
    text = SETUPS["distributed"] + IN_TURN
    told = "for one in both.loaders.values():\n        one.sampler.set_epoch(epoch)"
    wrong = lint_text(
        text.replace("{told}", "pass").replace("{asked}", "> 9"), select=("DDP102", "DDP402")
    )
    assert {one.code for one in wrong} == {"DDP102", "DDP402"}
    assert not lint_text(
        text.replace("{told}", told).replace("if loss.item() {asked}", "if epoch > 9"),
        select=("DDP102", "DDP402"),
    )


BOTH = """
def train(number, logger):
    {told}
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

for epoch in range(epochs):
    if rank == 0:
        train(epoch, print)
    {other}
"""


@pytest.mark.parametrize(
    ("told", "other", "found"),
    [
        ("loader.sampler.set_epoch(number)", "else:\n        train(epoch, None)", False),
        ("pass", "else:\n        train(epoch, None)", True),
        ("loader.sampler.set_epoch(number)", "pass", True),
    ],
)
def test_a_call_on_either_side_of_a_rank(
    told: str, other: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"] + BOTH.replace("{told}", told).replace("{other}", other)
    assert ("DDP102" in [one.code for one in lint_text(text)]) is found
