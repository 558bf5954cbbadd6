"""Right code, in forms that were once reported: work that rank 0 may do alone."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import findings
from tests.lint.setups import SETUPS

RIGHT = {
    "a mode in which rank 0 alone measures": """
def main(measures):
    if measures and rank == 0:
        print(model.module(torch.zeros(32, 10, device=device)).shape)
        return
    dist.barrier()

main(argparse.ArgumentParser().parse_args().measures)
""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_clean(name: str, lint_text: Lint) -> None:
    assert findings(lint_text, RIGHT[name]) == []


def test_ranks_that_do_not_train_at_all(lint_text: Lint) -> None:
    """The wrapper waits for them, which is said once."""
    text = """
if rank > 0:
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""
    found = {one.code for one in lint_text(SETUPS["distributed"] + text)}
    assert "DDP407" not in found
    assert "DDP403" in found or "DDP401" in found


def test_what_an_unseen_object_gives_is_no_wrapper_of_its_own(lint_text: Lint) -> None:
    text = (
        "from elsewhere import make\n"
        + SETUPS["distributed"]
        + """
trainer = make()
trainer.whole = DDP(trainer.whole, device_ids=[local_rank])
for epoch in range(epochs):
    scores, _ = trainer.train(epoch, loader)
    if rank == 0:
        for key, score in scores.items():
            print(key, score)
"""
    )
    assert not lint_text(text, select=("DDP403",))


def test_a_schedule_that_a_function_of_rank_zero_steps(lint_text: Lint) -> None:
    """It is found where it is that of all ranks, not where the function made it for itself."""
    head = SETUPS["distributed"] + "plan = torch.optim.lr_scheduler.StepLR(optimizer, 10)\n"
    text = """
def validate():
    {made}
    plan.step()

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    if rank == 0:
        validate()
"""
    assert lint_text(head + text.replace("{made}", "pass"), select=("DDP407",))
    own = "plan = torch.optim.SGD(Net().parameters(), lr=0.1)"
    assert not lint_text(head + text.replace("{made}", own), select=("DDP407",))


def test_an_evaluation_of_rank_zero_that_a_step_answers(lint_text: Lint) -> None:
    """Its forward sends the buffers, and that of the others' next step takes them."""
    text = (
        SETUPS["distributed"]
        + """
normed = DDP(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)).to(device))

@torch.no_grad()
def evaluate():
    return sum(normed(x).sum().item() for x, y in DataLoader(dataset, 32))

for epoch in range(epochs):
    {first}
    for x, y in loader:
        criterion(normed(x), y).backward()
        optimizer.step()
    {then}
"""
    )
    ask = "if rank == 0: evaluate()"
    before = text.replace("{first}", ask).replace("{then}", "pass")
    assert not lint_text(before, select=("DDP403",))
    after = text.replace("{first}", "pass").replace("{then}", ask)
    assert lint_text(after, select=("DDP403",))


NORMED = (
    SETUPS["distributed"]
    + """
normed = DDP(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)).to(device))
class Tester:
    def run(self, network):
        with torch.no_grad():
            network(torch.zeros(1, 10))
def validate(network):
    with torch.no_grad():
        return network(torch.zeros(1, 10))
"""
)
ELSEWHERE = (
    "validate(normed)\nif rank == 0:\n    validate({})\n",
    "validate(normed)\nx = validate({}) if rank == 0 else None\n",
    "validate(normed)\nrank == 0 and validate({})\n",
    "Tester().run(normed)\nif rank == 0:\n    Tester().run({})\n",
)


@pytest.mark.parametrize("calls", ELSEWHERE)
def test_a_validation_that_all_ranks_run_elsewhere(lint_text: Lint, calls: str) -> None:
    text = NORMED + calls
    assert lint_text(text.format("normed"), select=("DDP403",))
    assert not lint_text(text.format("normed.module"), select=("DDP403",))
    assert not lint_text(text.format("model"), select=("DDP403",))


def test_both_branches_of_a_condition_on_the_rank(lint_text: Lint) -> None:
    text = "if rank == 0:\n    validate(normed)\nelse:\n    validate(normed)\n"
    assert not lint_text(NORMED + text, select=("DDP403",))
