"""Steps that set the same names for one loss after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from tests.lint.setups import SETUPS

MODELS = """
g, d = nn.Linear(10, 10).to(device), nn.Linear(10, 1).to(device)
generator = DDP(g, device_ids=[local_rank])
discriminator = DDP(d, device_ids=[local_rank])
steps_g = torch.optim.Adam(generator.parameters())
steps_d = torch.optim.Adam(discriminator.parameters())
several = dist.is_initialized()
if several:
    g_module = generator.module
else:
    g_module = generator
"""
TRAINING = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        x = x.to(device)
        fake = generator(torch.randn(len(x), 10, device=device))
        score = discriminator(fake.detach())
        loss = F.softplus(score).mean() + F.softplus(-discriminator(x)).mean()
        steps_d.zero_grad()
        loss.backward()
        steps_d.step()
        {}
        steps_g.zero_grad()
        loss.backward()
        steps_g.step()
"""
STEP = """fake = {}(torch.randn(len(x), 10, device=device))
        score = discriminator(fake)
        loss = F.softplus(-score).mean()"""
PITFALLS = {
    "past the wrapper": STEP.format("generator.module"),
    "by a name": STEP.format("g_module"),
    "changed on one of two ways": STEP.format("generator.module").replace(
        "\n        score",
        "\n        if epoch > 3:\n            fake = fake + 0.1\n        score",
    ),
    "in one of the losses": STEP.format("generator")
    + "\n        steps_g.zero_grad()\n        loss.backward()\n        steps_g.step()\n        "
    + STEP.format("generator.module"),
}
INNOCENT = {
    "through the wrapper": STEP.format("generator"),
    "the same fakes": "score = discriminator(fake)\n        loss = F.softplus(-score).mean()",
    "beside the wrapper": STEP.format("generator")
    + "\n        loss = loss + generator.module(x).mean()",
    "added to what is there": STEP.format("generator")
    + "\n        loss += generator.module(x).mean()",
    "on one of two ways": "if len(x) > 3:\n            fake = generator.module(x)\n        "
    "score = discriminator(fake)\n        loss = F.softplus(-score).mean()",
    "for a look": STEP.format("generator") + "\n        with torch.no_grad():\n"
    "            fake = g_module(x)\n        print(fake.shape)",
}


def _codes(folder: Path, step: str) -> set[str]:
    path = folder / "train.py"
    path.write_text(SETUPS["distributed"] + MODELS + TRAINING.format(step))
    result = lint(Document(str(path), path.read_bytes()), Settings(root=folder))
    assert result.failure is None, result.failure
    return {one.code for one in result.found}


@pytest.mark.parametrize("step", PITFALLS.values(), ids=PITFALLS)
def test_a_forward_past_the_wrapper_of_one_loss_is_found(step: str, tmp_path: Path) -> None:
    assert "DDP303" in _codes(tmp_path, step)


@pytest.mark.parametrize("step", INNOCENT.values(), ids=INNOCENT)
def test_a_forward_that_is_averaged_is_left(step: str, tmp_path: Path) -> None:
    assert "DDP303" not in _codes(tmp_path, step)
