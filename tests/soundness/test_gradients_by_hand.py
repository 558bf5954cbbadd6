"""Gradients that a script reads of tensors that no model holds, whatever it calls these."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(905)
torch.set_default_dtype(torch.float64)
data = TensorDataset(torch.randn(11, 4), torch.randn(11, 4))
loader = DataLoader(data, batch_size=4, shuffle=True)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
p, q = torch.zeros(4, requires_grad=True), torch.ones(4, requires_grad=True)
"""
LOOP = """\
for epoch in range(2):
    for x, y in loader:
        LINES
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""
COST = "F.mse_loss(model(x * q + p), y)"
MOVE = """\
def move(d, rate):
    d.data -= rate * d.grad
    d.grad.zero_()


"""
HELD = """\
class Shift:
    def __init__(self):
        self.delta = torch.zeros(4, requires_grad=True)

    def __call__(self, x, y):
        F.mse_loss(model(x + self.delta), y).backward()
        self.delta.data.add_(self.delta.grad.data, alpha=0.1)
        self.delta.grad.data.zero_()
        return x + self.delta.detach()


shift = Shift()
"""
WHOLE = {
    "the parameter of a function": (MOVE, f"{COST}.backward()\nmove(p, 0.1)"),
    "the item of a list": (
        "kept = [p, q]\n",
        f"{COST}.backward()\nfor t in kept:\n    t.data -= 0.1 * t.grad\n    t.grad = None",
    ),
    "the item of a dictionary": (
        "kept = dict(p=p)\n",
        f"{COST}.backward()\nkept['p'].data -= kept['p'].grad\nkept['p'].grad = None",
    ),
    "an attribute": (HELD, "x = shift(x, y)"),
    "a parameter by itself": (
        "p = nn.Parameter(torch.zeros(4))\n",
        f"{COST}.backward()\nwith torch.no_grad():\n    p.sub_(0.1 * p.grad)\np.grad = None",
    ),
    "a print": ("", f"{COST}.backward()\nprint(p.grad.norm().item())\np.grad = None"),
    "autograd": ("", f"(g,) = torch.autograd.grad({COST}, p)\np.data -= g"),
    "autograd, of two": (
        "",
        f"a, b = torch.autograd.grad({COST}, [p, q])\np.data -= a\nq.data -= 0.1 * b",
    ),
    "autograd, beside a model's": (
        "",
        f"g, h = torch.autograd.grad({COST}, [p, model.bias])\np.data -= g + h",
    ),
}
ROWS = "z = torch.zeros_like(x).requires_grad_()\nown = torch.optim.SGD([z], 0.1)\n"
SHIFTED = "F.mse_loss(model(x + z), y)"
OF_ROWS = {
    "clipped by element": "torch.nn.utils.clip_grad_value_([z], 0.01)",
    "of which the sign counts": "z.grad = z.grad.sign()",
    "copied into": "z.grad.data.copy_(z.grad / z.grad.norm(dim=1, keepdim=True).clamp(min=0.1))",
    "changed by another name": "g = z.grad\ng.mul_(3)",
}
REFUSED = {
    "clipped by norm": f"{ROWS}{SHIFTED}.backward()\ntorch.nn.utils.clip_grad_norm_([z], 0.01)",
    "autograd, of trained rows": f"{ROWS}z.grad = torch.autograd.grad({SHIFTED}, z)[0]",
    "changed by another name": "x.requires_grad_()\nF.mse_loss(model(x), y).backward()\n"
    "g = x.grad\ng.mul_(3)\nz = x.detach() + x.grad",
}


@pytest.mark.parametrize("name", WHOLE)
def test_of_what_all_ranks_hold(trial: Trial, name: str) -> None:
    before, lines = WHOLE[name]
    last = f"loss = {COST}".replace("+ p", "+ p.detach()")
    verdict = trial.verdict(script(before, f"{lines}\n{last}"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("name", OF_ROWS)
def test_of_rows_that_an_optimizer_trains(trial: Trial, name: str) -> None:
    verdict = trial.verdict(script("", trained(f"{ROWS}{SHIFTED}.backward()\n{OF_ROWS[name]}")))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_rank_cannot_know_is_refused(trial: Trial, name: str) -> None:
    lines = REFUSED[name]
    text = script("", trained(lines) if "own" in lines else f"{lines}\nloss = {SHIFTED}")
    assert trial.verdict(text).outcome is Outcome.REFUSED


def trained(lines: str) -> str:
    return f"{lines}\nown.step()\nloss = {SHIFTED}".replace("loss = ", "z = z.detach()\nloss = ")


def script(before: str, lines: str) -> str:
    return HEAD + before + LOOP.replace("LINES", lines.replace("\n", "\n        "))
