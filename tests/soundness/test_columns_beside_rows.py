"""A column of samples beside one number of each: PyTorch makes a row of all for each sample."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

COLUMNS = [
    "out.index_select(1, torch.tensor([0]))",
    "out.chunk(4, 1)[0]",
    "out.split(1, 1)[0]",
    "out.narrow(1, 0, 1)",
    "out.gather(1, labels[:, None])",
    "torch.cat([out[:, :1]], 1)",
    "out.unfold(1, 4, 1).sum(-1)",
]


@pytest.mark.parametrize("column", COLUMNS)
def test_the_rows_are_those_of_all_ranks(trial: Trial, column: str) -> None:
    lines = f"r = {column} - targets[:, 0]\nloss = loss + 0.1 * r.pow(2).mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


SINGLE = [
    "torch.distributions.Categorical(logits=out).log_prob(labels)",
    "torch.distributions.Categorical(logits=out).entropy()",
    "torch.distributions.Normal(out[:, 0], 1.0).log_prob(targets[:, 0])",
    "torch.distributions.Normal(out, 1.0).mean.sum(1)",
    "torch.distributions.Independent(torch.distributions.Normal(out, 1.0), 1).log_prob(targets)",
    "torch.distributions.kl_divergence(torch.distributions.Categorical(logits=out),"
    " torch.distributions.Categorical(logits=targets))",
    "torch.linalg.vecdot(out, targets)",
    "torch.vmap(lambda a, b: (a * b).sum())(out, targets)",
    "torch.tensor([row.sum() for row in targets])",
    "torch.bmm(out[:, None], targets[:, :, None]).squeeze()",
    "(out.unsqueeze(1) @ targets.unsqueeze(2)).squeeze()",
    "(out.unsqueeze(1) @ targets.unsqueeze(2)).reshape(len(out))",
]


@pytest.mark.parametrize("numbers", SINGLE)
def test_one_number_of_each_meets_all_of_a_column(trial: Trial, numbers: str) -> None:
    lines = f"r = {numbers} * targets[:, :1]\nloss = loss + 0.1 * (r * out.mean()).mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


BESIDE_ALL = [
    "torch.distributions.Normal(out, 1.0).log_prob(targets.flip(0))",
    "torch.distributions.Normal(out.flip(0), 1.0).log_prob(targets)",
    "torch.distributions.kl_divergence(torch.distributions.Normal(out, 1.0),"
    " torch.distributions.Normal(targets.flip(0), 1.0))",
]


@pytest.mark.parametrize("rows", BESIDE_ALL)
def test_a_distribution_meets_rows_of_all_ranks(trial: Trial, rows: str) -> None:
    verdict = trial.verdict(script("loop", f"loss = loss - 0.1 * {rows}.mean()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


OF_UNKNOWN_DIMENSIONS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, inputs):
        return self.layers(inputs)


torch.manual_seed(0)
loader = DataLoader(torch.randn(22, 2), batch_size=8, shuffle=True)
model = Judge()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs in loader:
    moved = inputs * 2
    loss = LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
"""


@pytest.mark.parametrize(
    "loss",
    [
        "torch.exp(model(inputs) - torch.sum((moved - inputs) ** 2, dim=1)).mean()",
        "(model(moved) - (moved * inputs).mean(1)).abs().mean()",
        "(model(moved) * (moved + model(inputs)).norm(dim=1)).mean()",
    ],
)
def test_a_column_of_a_model_meets_all_of_what_a_dimension_less_has(
    trial: Trial, loss: str
) -> None:
    verdict = trial.verdict(OF_UNKNOWN_DIMENSIONS.replace("LOSS", loss))
    assert verdict.outcome is Outcome.SAME, verdict.detail


SQUEEZED = [
    "targets[:, :1].squeeze()",
    "targets[:, :1].squeeze(-1)",
    "targets[:, 0].squeeze()",
    "targets.sum(1).squeeze()",
    "targets.sum(1, keepdim=True).squeeze().clone()",
    "torch.squeeze(targets[:, None, :1])",
]


@pytest.mark.parametrize("numbers", SQUEEZED)
@pytest.mark.parametrize("join", ["F.mse_loss(one(out), {})", "(one(out) * {}).mean()"])
def test_what_is_squeezed_meets_all_of_a_column_of_a_layer(
    trial: Trial, numbers: str, join: str
) -> None:
    _with_layers(trial, "one = nn.Linear(4, 1)", f"loss = loss + {join.format(numbers)}")


THROUGH = "h = out\nfor layer in LAYERS:\n    h = torch.tanh(layer(h))"
LAYERS = {
    "layers = nn.ModuleList([nn.Linear(4, 3), nn.Linear(3, 1)])": "layers",
    "sizes = [4, 3, 1]\n"
    "layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])": "layers",
    "layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)] + [nn.Linear(4, 1)])": "layers",
    "layers = nn.ModuleDict({'a': nn.Linear(4, 3), 'b': nn.Linear(3, 1)})": "layers.values()",
    "listed = [nn.Linear(4, 4), nn.Tanh()]\nlisted.append(nn.Linear(4, 1))\n"
    "layers = [nn.Sequential(*listed)]": "layers",
}


@pytest.mark.parametrize("made", LAYERS)
def test_so_it_does_where_a_loop_goes_through_layers(trial: Trial, made: str) -> None:
    lines = THROUGH.replace("LAYERS", LAYERS[made])
    _with_layers(trial, made, f"{lines}\nloss = loss + F.mse_loss(h, targets[:, 0])")


HEADS = """\
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 1) for _ in range(3)])

    def forward(self, inputs):
        return RESULT


heads = Heads()
"""


@pytest.mark.parametrize(
    ("result", "read"),
    [
        ("[head(inputs) for head in self.heads]", "heads(out)[0]"),
        ("torch.stack([head(inputs) for head in self.heads]).mean(0)", "heads(out)"),
        ("torch.stack([head(inputs) for head in self.heads])[0]", "heads(out)"),
        ("torch.stack([head(inputs) for head in self.heads]).min(0)[0]", "heads(out)"),
    ],
)
def test_so_do_heads_that_a_forward_puts_together(trial: Trial, result: str, read: str) -> None:
    lines = f"loss = loss + F.mse_loss({read}, targets[:, 0])"
    _with_layers(trial, HEADS.replace("RESULT", result), lines)


def test_numbers_of_a_squeezed_column_are_left_to_each_rank(trial: Trial) -> None:
    lines = "loss = loss + F.mse_loss(one(out).squeeze(), targets[:, :1].squeeze())"
    converted = trial.converted(_layers_made("one = nn.Linear(4, 1)", lines))
    assert isinstance(converted, str)
    assert "dd.gather" not in converted


def _layers_made(made: str, lines: str) -> str:
    return script("loop", lines).replace("model = nn", f"{made}\nmodel = nn", 1)


def _with_layers(trial: Trial, made: str, lines: str) -> None:
    verdict = trial.verdict(_layers_made(made, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
