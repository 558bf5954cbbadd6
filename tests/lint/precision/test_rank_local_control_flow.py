"""Right code, in forms that were once reported: decisions that all ranks make alike."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import findings
from tests.lint.setups import SETUPS

RIGHT = {
    "a rate out of a table, times that of the group": """
rates = [0.1] * 100
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    for group in optimizer.param_groups:
        group["lr"] = rates[step] * group["base"]
        group.update({"last": loss.item()})
""",
    "the number of a batch, taken out of the pair": """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    batches = range(5) if epoch == 0 else enumerate(loader)
    for one in batches:
        if epoch == 0:
            continue
        step, (x, y) = one
        if step >= 5:
            break
        criterion(model(x), y).backward()
        optimizer.step()
""",
    "the number of a batch, in a bar of another package": """
from rich.progress import track
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    batches = enumerate(loader)
    if rank == 0:
        batches = track(batches, total=len(loader))
    for step, (x, y) in batches:
        criterion(model(x), y).backward()
        optimizer.step()
        if (step + 1) % 4 == 0:
            break
""",
    "what an optimizer was made with": """
def search(rate):
    best = 0.0
    tuned = torch.optim.SGD(model.parameters(), lr=rate)
    state = {"optimizer": tuned.state_dict(), "epoch": 3}
    for epoch in range(state["epoch"]):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            loss.backward()
            tuned.step()
            best = max(best, loss.item())
            if (step + epoch) % 2 == 0:
                break
    return best

rate = 0.1
for round in range(3):
    if search(rate) > 1:
        rate = rate / 2
""",
    "a flag that nothing sets": """
class Hooks:
    def __init__(self):
        self.stop = False

hooks = Hooks()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
        if rank == 0:
            if hooks.stop:
                break
""",
    "a chain of comparisons in a forward": """
class Bounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Net()

    def forward(self, x, most=None):
        if 0 < len(x) < 100:
            x = self.inner(x)
        return x

print(Bounded()(torch.zeros(2, 10)))
""",
    "a way out by the number of elements": """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        scores = model(x)
        criterion(scores, y).backward()
        optimizer.step()
        if scores.numel() < 3:
            break
""",
    "a rank that fails": """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        if torch.isnan(loss).any():
            raise RuntimeError("not a number")
        loss.backward()
        optimizer.step()
""",
    "an entry beside one that a rank fills": """
state = {"step": 0, "loss": 0.0}
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        state["step"] += 1
        state["loss"] += loss.item()
        if state["step"] > 1000:
            break
""",
    "a loop over the numbers of batches": """
batches = iter(loader)
for number in range(len(loader)):
    x, y = next(batches)
    if number < 7:
        continue
    criterion(model(x), y).backward()
    optimizer.step()
""",
    "a measurement of backward passes": """
def measure(layers):
    times = []
    for layer in layers:
        try:
            start = time.time()
            layer(torch.zeros(1, 10)).sum().backward()
            times.append(time.time() - start)
        except Exception:
            times.append(float("nan"))
    return times

measure([net.l1])
""",
    "what is left out after all ranks made the step": """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if torch.isnan(loss):
            continue
        print(loss)
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


@pytest.mark.parametrize(("test", "found"), [("loss", True), ("mean_of_all_ranks", False)])
def test_a_way_out_by_a_number_that_unseen_code_reduced(
    test: str, found: bool, lint_text: Lint
) -> None:
    text = (
        "from elsewhere import reduce_mean\n"
        + SETUPS["distributed"]
        + f"""
for x, y in loader:
    loss = criterion(model(x), y)
    mean_of_all_ranks = reduce_mean(loss)
    if torch.isnan({test}):
        continue
    loss.backward()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP402",))] == ["DDP402"] * found


def test_which_entries_a_batch_has_is_the_same_on_all_ranks(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
for batch in loader:
    out = model(batch["x"])
    if {asked}:
        continue
    criterion(out, batch["y"]).backward()
    optimizer.step()
"""
    )
    for asked in ('"y" not in batch', '"y" not in batch.keys()', 'epochs and not ("y" in batch)'):
        assert not lint_text(text.replace("{asked}", asked), select=("DDP402",))
    for asked in ('batch["y"].sum() == 0', '"nan" in str(out.sum())'):
        assert lint_text(text.replace("{asked}", asked), select=("DDP402",))


def test_a_batch_that_is_made_anew_from_its_own_samples(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
for batch in {batches}:
    kept = [i for i, name in enumerate(batch["name"]) if name]
    if not kept:
        continue
    batch = {key: held[kept] for key, held in batch.items()}
    criterion(model(batch["x"]), batch["y"]).backward()
    optimizer.step()
"""
    )
    assert lint_text(text.replace("{batches}", "loader"), select=("DDP402",))
    whole = text.replace("{batches}", "DataLoader(dataset, 32)")
    assert not lint_text(whole, select=("DDP402",))


def test_a_helper_that_returns_before_its_collective(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
def mean_of_ranks(value, asked):
    if {test}:
        {before}
        return value
    dist.all_reduce(value)
    return value / world_size

for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    print(mean_of_ranks(loss.detach().clone(), loss.item()))
"""
    )
    for test, before, found in (
        ("asked > 9", "pass", True),
        ("asked > 9", "dist.all_reduce(value)", False),
        ("world_size < 2", "pass", False),
        ("value.dim() > 3", "pass", False),
    ):
        changed = text.replace("{test}", test).replace("{before}", before)
        assert bool(lint_text(changed, select=("DDP402",))) is found


TRAINED = """
class Record:
    def __init__(self):
        self.total, self.count = 0.0, 0
    def update(self, value, count):
        self.total += value
        self.count += count
    def combine(self):
        both = torch.tensor([self.total, self.count], device="cuda")
        dist.all_reduce(both)
        self.total, self.count = both.tolist()
    def mean(self):
        return self.total / self.count

class Trainer:
    def __init__(self, model, loader, held_out):
        self.model = DDP(model, device_ids=[local_rank])
        self.loader, self.held_out = loader, held_out
    def evaluate(self):
        record = Record()
        for x, y in self.held_out:
            record.update(criterion(self.model(x), y).item(), len(y))
        {combined}
        return record
    def epoch(self):
        for x, y in self.loader:
            criterion(self.model(x), y).backward()
    def process(self):
        best, waited = None, 0
        for number in range(10):
            self.epoch()
            record = self.evaluate()
            if best is None or record.mean() < best:
                best, waited = record.mean(), 0
            else:
                waited += 1
                if waited > 3:
                    stop = torch.ones(1, device="cuda")
                    dist.broadcast(stop, 0)
                    break
"""


@pytest.mark.parametrize(("combined", "found"), [("record.combine()", False), ("pass", True)])
def test_a_trainer_that_another_file_starts(combined: str, found: bool, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + TRAINED.replace("{combined}", combined)
    assert bool(lint_text(text, select=("DDP402",))) is found


WHILE = """
done, best, epoch = False, 0.0, 0
while {test}:
    epoch += 1
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    {set}
"""


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        ("not done", "done = epoch > 3"),
        ("epoch < 9 and best < 0.9", "best = max(best, epoch / 10)"),
        ("best < 0.9", "best += 0.1"),
    ],
)
def test_a_loop_that_goes_on_by_what_rank_0_keeps(lint_text: Lint, test: str, kept: str) -> None:
    text = SETUPS["distributed"] + WHILE
    alone = text.format(test=test, set=f"if rank == 0: {kept}")
    assert "DDP402" in {one.code for one in lint_text(alone)}
    assert "DDP402" not in {one.code for one in lint_text(text.format(test=test, set=kept))}
    told = f"if rank == 0: {kept}\n    told = [done, best]\n    dist.broadcast_object_list(told, 0)"
    agreed = text.format(test=test, set=f"{told}\n    done, best = told")
    assert "DDP402" not in {one.code for one in lint_text(agreed)}


NESTED = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        good = ~torch.isnan(x).any(dim=1)
        if not good.all():
            x, y = x[good], y[good]
            if {inner}:
                continue
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("inner", "told"), [("good.sum() == 0", "good.sum() == 0"), ("epoch > 3", "not good.all()")]
)
def test_conditions_within_each_other_are_one_decision(
    inner: str, told: str, lint_text: Lint
) -> None:
    found = lint_text(SETUPS["distributed"] + NESTED.format(inner=inner))
    (message,) = [one.message for one in found if one.code == "DDP402"]
    assert f"by its own {told}:" in message


def test_conditions_around_a_collective_are_one_decision(lint_text: Lint) -> None:
    lines = "for x, y in loader:\n    if x.sum() > 0:\n        if y.sum() > 0:\n            {}\n"
    for inner in ("dist.barrier()", "criterion(model(x), y).backward()"):
        found = lint_text(SETUPS["distributed"] + lines.format(inner))
        assert len([one for one in found if one.code == "DDP402"]) == 1
