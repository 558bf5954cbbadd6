"""Right code, in forms that were once reported: losses and their sums."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import findings
from tests.lint.setups import SETUPS

RIGHT = {
    "accumulation steps that follow from the world size": """
rounds = 4096 // (8 * world_size)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        for part in range(rounds):
            model.require_backward_grad_sync = part == rounds - 1
            loss = criterion(model(x), y)
            loss = loss / rounds
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    "two views of each sample, of which the loss takes one": """
similarity = nn.CosineSimilarity(dim=1)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for views, _ in loader:
        first, second = model(views[0]), model(views[1])
        loss = -(similarity(first, second.detach()).mean() + similarity(second, first).mean())
        loss.backward()
        optimizer.step()
""",
    "a loss that is made of all ranks' outputs": """
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):
        return gradient

gather = Gather.apply
total = 0.0
for x, y in loader:
    total += criterion(gather(model(x)), gather(y)).item()
if rank == 0:
    print(total)
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


@pytest.mark.parametrize(("trained", "found"), [("model", True), ("beside", False)])
def test_a_sum_of_the_losses_of_what_is_wrapped(trained: str, found: bool, lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + f"""
beside = Net().to(device)
with torch.no_grad():
    first = model(dataset[0][0]).mean()
for x, y in loader:
    (F.cross_entropy({trained}(x), y, reduction="sum") * first).backward()
"""
    )
    found_codes = [one.code for one in lint_text(text, select=("DDP408",))]
    assert found_codes == ["DDP408"] * found


@pytest.mark.parametrize(
    ("rate", "loss", "found"),
    [
        ("0.1", "summed(model(x), y)", True),
        ("0.1 * world_size", "summed(model(x), y)", False),
        ("0.1", "weighed(summed(model(x), y))", False),
    ],
)
def test_a_sum_that_a_rate_or_unseen_code_makes_up_for(
    rate: str, loss: str, found: bool, lint_text: Lint
) -> None:
    text = SETUPS["distributed"].replace("lr=0.1", f"lr={rate}") + (
        f"""
from elsewhere import weighed
summed = nn.CrossEntropyLoss(reduction="sum")
for x, y in loader:
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP408",))] == ["DDP408"] * found


@pytest.mark.parametrize(
    ("divided", "found"), [("loss", True), ("loss / 2", True), ("loss / max(many, 1)", False)]
)
def test_a_sum_that_is_divided_by_how_many_terms_it_has(
    divided: str, found: bool, lint_text: Lint
) -> None:
    text = (
        SETUPS["distributed"]
        + f"""
from elsewhere import fill
for x, y in loader:
    many = fill(torch.zeros(1))
    loss = F.cross_entropy(model(x), y, reduction="sum")
    loss = {divided}
    loss.backward()
"""
    )
    assert [one.code for one in lint_text(text, select=("DDP408",))] == ["DDP408"] * found


def test_a_score_of_an_evaluation_that_is_kept_with_the_settings(lint_text: Lint) -> None:
    text = (
        SETUPS["distributed"]
        + """
settings = {"best": 0.0, "temperature": 1.0}

def evaluate(model, settings):
    total = 0.0
    for x, y in loader:
        z = model(x)
        total += {what}.item()
    settings["best"] = total

def train(model, settings):
    for x, y in loader:
        loss = criterion(model(x) / settings["temperature"], y)
        {more}
        loss.backward()

for epoch in range(epochs):
    train(model, settings)
    evaluate(model, settings)
"""
    )
    pairs = "(z @ z.t()).sum()"
    scored = text.replace("{what}", pairs).replace("{more}", "pass")
    assert not lint_text(scored, select=("DDP412",))
    trained = text.replace("{what}", "z.sum()").replace("{more}", "loss = loss + (x @ x.t()).sum()")
    assert lint_text(trained, select=("DDP412",))


COUPLED = """
def gathered(x):
    parts = [torch.zeros_like(x) for _ in range(world_size)]
    dist.all_gather(parts, x)
    return torch.cat(parts)

class Contrast(nn.Module):
    def forward(self, z):
        {first}
        return F.cross_entropy(z @ z.t(), torch.arange(len(z), device=z.device))

contrast = Contrast()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        z = model(x)
        {before}
        contrast(z).backward()
        optimizer.step()
    with torch.no_grad():
        {after}
"""


@pytest.mark.parametrize(
    ("where", "line", "found"),
    [
        ("", "", True),
        ("after", "print(gathered(model(torch.zeros(4, 10, device=device))))", True),
        ("before", "z = gathered(z)", False),
        ("before", "parts = gathered(z); parts[:len(z)] = z; z = parts", False),
        ("first", "z = gathered(z)", False),
    ],
)
def test_a_gathering_makes_whole_what_it_gathers(
    where: str, line: str, found: bool, lint_text: Lint
) -> None:
    """What an evaluation gathers comes to no loss."""
    text = COUPLED
    for name in ("first", "before", "after"):
        text = text.replace(f"{{{name}}}", line if name == where else "pass")
    assert bool(lint_text(SETUPS["distributed"] + text, select=("DDP412",))) is found
