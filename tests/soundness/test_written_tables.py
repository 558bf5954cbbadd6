"""What a batch writes into tensors that all ranks hold, through views and by other names."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

MADE = {
    "t = torch.zeros(4, 4)": [
        "t.view(-1)[:4].add_(targets.mean(0))",
        "t.reshape(16)[:4].copy_(targets.mean(0))",
        "t.detach().add_(targets.mean(0))",
        "t.T[0] = targets.mean(0)",
        "t.mT.copy_(targets.mean(0))",
        "u = t.T\nu[0] = targets.mean(0)",
        "u = t.view(-1)\nu[1:5] = targets.mean(0)",
        "t.put_(labels, targets[:, 0], accumulate=True)",
        "t[0].masked_scatter_(torch.arange(4) < 1, targets[:, 0])",
        "torch.Tensor.add_(t, targets.mean(0))",
        "getattr(t, 'add_')(targets.mean(0))",
        "f = t.add_\nf(targets.mean(0))",
    ],
    "t = torch.zeros(4, 4)\nheld = {'a': t}\nlisted = [t]": [
        "held['a'].add_(targets.mean(0))",
        "held['a'].view(-1)[:4].add_(targets.mean(0))",
        "held['a'][1] = targets.mean(0)",
        "listed[0].mul_(0.9).add_(targets.mean(0))",
        "for one in listed:\n    one.lerp_(targets.mean(0), 0.5)",
    ],
    "t = np.zeros((4, 4))": [
        "t.T[0] = targets.numpy().mean(0)",
        "t.reshape(-1)[:4] += targets.numpy().mean(0)",
        "t.flat[:4] = targets.numpy().mean(0)",
        "np.put(t, labels.numpy(), targets[:, 0].numpy())",
        "np.place(t, t == 0, targets.numpy()[0])",
        "np.putmask(t, t == 0, targets.numpy().mean(0))",
        "np.fill_diagonal(t, targets.numpy().mean(0))",
        "np.put_along_axis(t, labels.numpy()[None, :1], targets.numpy()[:1, :1], 1)",
    ],
}
WRITES = [(made, write) for made, writes in MADE.items() for write in writes]


@pytest.mark.parametrize(("made", "write"), WRITES)
def test_what_is_made_for_a_batch_holds_what_all_rows_write(
    trial: Trial, made: str, write: str
) -> None:
    verdict = trial.verdict(script("loop", f"{made}\n{write}\nloss = loss * (1 + t.sum())"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(("made", "write"), WRITES)
def test_what_outlives_the_batch_does_too(trial: Trial, made: str, write: str) -> None:
    text = script("loop", f"{write}\nloss = loss * (1 + t.sum())")
    text = text.replace("torch.manual_seed(905)", f"torch.manual_seed(905)\n{made}", 1)
    verdict = trial.verdict(text)
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail
