"""Hooks on layers and on gradients of samples, converted and run at 2 and 3 ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import Options, convert_file
from tests.convert.running import assert_trains_the_same

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
samples, kinds = torch.randn(17, 5), torch.randint(0, 3, (17,))
feed = DataLoader(TensorDataset(samples, kinds), batch_size=6, shuffle=True)
kept = []


def of_layer(layer, given, z):
    BODY


def of_gradient(z):
    BODY


net = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3))
BEFORE
rule = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for x, y in feed:
    rule.zero_grad()
    out = net(x)
    HOOK
    loss = F.cross_entropy(out, y)
    loss.backward()
    rule.step()
    print(f"{loss.item():.6f}")
print(len(kept), f"{sum(one.sum().item() for one in kept):.6f}")
"""
OF_LAYER = "net[0].register_forward_hook(of_layer)"
OF_GRADIENT = "out.register_hook(of_gradient)"
EACH_ALONE = ["return z * 0.5", "return z * torch.tensor([1.0] * z.shape[1])"]
OF_ALL = [
    "return z - z.mean(0)",
    "return z / (1 + z.norm())",
    "return z.softmax(0)",
    "return z.flip(0)",
    "return z.clamp(-0.01, 0.01) * len(z)",
    "kept.append(z.detach().square())",
    "kept.append(z.detach().abs().mean())",
    "print(f'{z.abs().max().item():.6f}', len(z))",
]


def _converted(folder: Path, body: str, *, before: str = "", hook: str = "") -> tuple[Path, str]:
    text = SCRIPT.replace("BODY", body).replace("BEFORE", before).replace("HOOK", hook or "pass")
    script = folder / "script.py"
    script.write_text(text, encoding="utf-8")
    converted = folder / "converted.py"
    converted.write_bytes(convert_file(script, Options()).data)
    return converted, converted.read_text(encoding="utf-8")


@pytest.mark.parametrize("body", EACH_ALONE)
def test_a_hook_that_scales_gets_a_ranks_samples(tmp_path: Path, trial: Trial, body: str) -> None:
    converted, text = _converted(tmp_path, body, before=OF_LAYER, hook=OF_GRADIENT)
    assert OF_LAYER in text and OF_GRADIENT in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


@pytest.mark.parametrize("body", OF_ALL)
def test_any_other_hook_of_a_layer_gets_the_samples_of_all_ranks(
    tmp_path: Path, trial: Trial, body: str
) -> None:
    converted, text = _converted(tmp_path, body, before=OF_LAYER)
    assert "net[0].register_forward_hook(dd.batch_hook(of_layer))" in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


@pytest.mark.parametrize("body", OF_ALL)
def test_any_other_hook_on_a_gradient_gets_that_of_all_samples(
    tmp_path: Path, trial: Trial, body: str
) -> None:
    converted, text = _converted(tmp_path, body, hook=OF_GRADIENT)
    assert "out.register_hook(dd.batch_gradient_hook(of_gradient))" in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


@pytest.mark.parametrize(
    "body", ["z[1:].mul_(2.0)", "torch.clip_(z[0], -0.1, 0.1); kept.append(z)"]
)
def test_a_hook_may_change_the_output_of_its_layer_in_place(
    tmp_path: Path, trial: Trial, body: str
) -> None:
    converted, text = _converted(tmp_path, body, before=OF_LAYER)
    assert "dd.batch_hook(of_layer)" in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


def test_what_a_hook_draws_for_all_samples_is_the_same_on_all_ranks(
    tmp_path: Path, trial: Trial
) -> None:
    body = "return z + z[torch.randperm(len(z))]"
    converted, text = _converted(tmp_path, body, before=OF_LAYER)
    assert "dd.batch_hook(of_layer)" in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)
