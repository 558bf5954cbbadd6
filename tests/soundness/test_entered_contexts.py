"""``with context as name`` binds what the context yields or its ``__enter__`` returns."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """
import contextlib

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


@contextlib.contextmanager
def held(it):
    yield it


@contextlib.contextmanager
def first(it):
    yield it[0]


@contextlib.contextmanager
def mean(it):
    try:
        yield it.mean()
    finally:
        pass


class Held:
    def __init__(self, it):
        self.it = it

    def __enter__(self):
        return self.it

    def __exit__(self, *_):
        return None


torch.manual_seed(0)
x, y = torch.randn(22, 4), torch.randn(22, 2)
loader = DataLoader(TensorDataset(x, y), batch_size=8)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = 0.0
for a, b in loader:
    a.requires_grad_()
    out = model(a)
    loss = F.mse_loss(out, b)
    with CONTEXT as it:
        LINE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f} {best:.6f}")
"""
# Of a printed number, of a term of the loss, and of an attack's gradient.
ENTERED = [
    ("mean(out)", "best = it.item()"),
    ("mean(a)", "best = max(best, it.item())"),
    ("first(out)", "loss = loss + it.sum()"),
    ("held(a)", "loss = loss * len(it)"),
    ("held(loss)", "a = a + 3 * torch.autograd.grad(it, a)[0]; loss = F.mse_loss(model(a), b)"),
    ("Held(a)", "best = it.mean().item()"),
]
STACKED = ["held(a)", "mean(a)", "Held(a)"]


@pytest.mark.parametrize(("context", "line"), ENTERED)
def test_what_is_entered_is_followed(trial: Trial, context: str, line: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("CONTEXT", context).replace("LINE", line))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("context", STACKED)
def test_so_is_what_a_stack_enters(trial: Trial, context: str) -> None:
    line = f"best = stack.enter_context({context}).mean().item()"
    text = SCRIPT.replace("CONTEXT as it", "contextlib.ExitStack() as stack").replace("LINE", line)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
