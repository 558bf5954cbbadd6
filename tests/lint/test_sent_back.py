"""Flags that one rank sends, and that the others take in place of their own."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

TEXT = """
class Stopper:
    def __init__(self, patience=3):
        self.best, self.best_epoch, self.patience = 1e9, 0, patience

    def __call__(self, epoch, value):
        if value < self.best:
            self.best, self.best_epoch = value, epoch
        return epoch - self.best_epoch >= self.patience

stopper = Stopper()
stop = False
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    {made}
    {sent}
    if stop:
        break
"""
OBJECT = "sent = [stop if rank == 0 else None]\n    dist.broadcast_object_list(sent, 0)"
TENSOR = "sent = torch.tensor([int(stop)], device=device)\n    dist.broadcast(sent, 0)"
OTHERS = "\n    if rank != 0:\n        stop = bool(sent[0])"
ALL = "\n    stop = bool(sent[0])"
RANK_0 = "if rank == 0:\n        stop = stopper(epoch, total)"
EACH = "stop = stopper(epoch, total)"


@pytest.mark.parametrize("made", [RANK_0, EACH])
@pytest.mark.parametrize("sent", [OBJECT + OTHERS, OBJECT + ALL, TENSOR + OTHERS, TENSOR + ALL])
def test_all_ranks_have_what_was_sent(made: str, sent: str, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + TEXT.format(made=made, sent=sent)
    assert "DDP402" not in [one.code for one in lint_text(text)]


@pytest.mark.parametrize("made", [RANK_0, EACH])
@pytest.mark.parametrize(
    "sent",
    [
        "pass",
        OBJECT,
        OBJECT + OTHERS.replace("stop =", "agreed ="),
        OBJECT.replace("stop if", "epoch if") + OTHERS.replace("bool", "agreed = bool"),
        "sent = [epoch]\n    dist.broadcast_object_list(sent, 0)\n    last = sent[0]",
    ],
)
def test_each_rank_goes_on_with_its_own(made: str, sent: str, lint_text: Lint) -> None:
    sent = sent.replace("stop = agreed", "agreed")
    text = SETUPS["distributed"] + TEXT.format(made=made, sent=sent)
    assert "DDP402" in [one.code for one in lint_text(text)]
