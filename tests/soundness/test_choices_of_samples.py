"""Where the last dimension is that of the samples, and gradients that a hook takes one by one."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

CHOICES = [
    ("hook", "h = h + torch.distributions.Categorical(logits=h[:, 0]).entropy()"),
    ("hook", "h = h * torch.distributions.OneHotCategorical(logits=h.mean(1)).probs.max()"),
    ("collate", "r = torch.distributions.Categorical(logits=inputs[:, 0]).entropy()"),
    ("collate", "r = torch.distributions.Dirichlet(inputs[:, 0].exp()).mean[:, None]"),
]
# What a collate function reduces over the other dimension of each part has a number a sample.
REDUCED = ["sum(1)", "mean(dim=1)", "amin(1)", "median(1)[0]", "view(5, -1)[:, 0]"]
TAKEN_APART = [
    "inputs, targets = [torch.stack(part) for part in list(zip(*samples))[:2]]",
    "inputs, targets = (torch.stack(part) for part in zip(*[sample[:2] for sample in samples]))",
]
# Gradients of single samples, under the names that bind them.
BENT = [
    "torch.stack([row.softmax(0) for row in g])",
    "torch.stack([*(row * row.sum() for row in g)])",
    "g * (s := g + 1)",
]
BENT_BY_LOOP = """\
def bent(g):
    rows = []
    for row in g:
        rows.append(row * row.abs())
    return torch.stack(rows)
out.register_hook(bent)"""
ANNOTATED = """\
def bent(g):
    s: torch.Tensor = g + 1
    return g * s
out.register_hook(bent)"""
HOOKS = [*(f"out.register_hook(lambda g: {one})" for one in BENT), BENT_BY_LOOP, ANNOTATED]


@pytest.mark.parametrize(("place", "lines"), CHOICES)
def test_choices_are_all_samples(trial: Trial, place: str, lines: str) -> None:
    assert_same(trial, script(place, lines))


@pytest.mark.parametrize("reduced", REDUCED)
@pytest.mark.parametrize("taken", ["", *TAKEN_APART])
def test_parts_of_samples_keep_their_dimensions(trial: Trial, taken: str, reduced: str) -> None:
    text = script("collate", f"{taken}\nr = inputs.{reduced}[:len(inputs), None]")
    assert_same(trial, text.replace("randn(11, 4)", "randn(10, 4)").replace("(11,)", "(10,)"))


@pytest.mark.parametrize("lines", HOOKS)
def test_a_hook_bends_gradients_of_single_samples(trial: Trial, lines: str) -> None:
    assert_same(trial, script("loop", f"loss = F.mse_loss(out, targets)\n{lines}"))


def assert_same(trial: Trial, text: str) -> None:
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
