"""Models that no optimizer steps: those that normalise over the batch do so over all ranks'."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added

NETWORK = """\
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), LAYER, nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


student, teacher = Network(), Network()
rule = torch.optim.SGD(student.parameters(), lr=0.1)
MODE
for a, b in feed:
    with torch.no_grad():
        wanted = teacher(a)
    penalty = F.mse_loss(student(a), wanted)
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


def lines_of(folder: Path, layer: str, mode: str) -> list[str]:
    return added(folder, HEAD + NETWORK.replace("LAYER", layer).replace("MODE", mode))


@pytest.mark.parametrize("mode", ["", "teacher.train()", "teacher.eval()\nteacher.train(True)"])
def test_a_teacher_that_normalises_over_the_batch(tmp_path: Path, mode: str) -> None:
    lines = lines_of(tmp_path, "nn.BatchNorm1d(8)", mode)
    assert "student, teacher = dd.wrap(Network()), dd.wrap(Network(), trained=False)" in lines


def test_a_copy_of_layers_normalises_as_they_do(tmp_path: Path) -> None:
    layers = "nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))"
    copied = "student, teacher = Network(), copy.deepcopy(plain)"
    text = NETWORK.replace("student, teacher = Network(), Network()", f"plain = {layers}\n{copied}")
    text = text.replace("LAYER", "nn.ReLU()").replace("MODE", "")
    lines = added(tmp_path, "import copy\n" + HEAD + text)
    assert "teacher = dd.wrap(teacher, trained=False)" in lines


@pytest.mark.parametrize(
    ("layer", "mode"),
    [
        ("nn.BatchNorm1d(8)", "teacher.eval()"),
        ("nn.BatchNorm1d(8)", "teacher.train(False)"),
        ("nn.LayerNorm(8)", ""),
    ],
)
def test_a_teacher_that_does_not(tmp_path: Path, layer: str, mode: str) -> None:
    assert "student, teacher = dd.wrap(Network()), Network()" in lines_of(tmp_path, layer, mode)


def test_each_rank_may_normalise_by_itself(tmp_path: Path) -> None:
    text = NETWORK.replace("LAYER", "nn.BatchNorm1d(8)").replace("MODE", "")
    lines = added(tmp_path, HEAD + text, sync_batchnorm=False)
    assert not any("trained=False" in line for line in lines)


@pytest.mark.parametrize(
    "call",
    [
        "nn.utils.spectral_norm(nn.Linear(4, 3))",
        "nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))",
    ],
)
def test_a_layer_whose_parameters_are_made_anew_is_wrapped_after_that(
    tmp_path: Path, call: str
) -> None:
    lines = added(tmp_path, HEAD.replace("nn.Linear(4, 3)", call) + STEP)
    assert any("dd.wrap(" in line for line in lines)


AVERAGE = """\
from torch.optim.swa_utils import AveragedModel, update_bn
brain = nn.Sequential(nn.Linear(4, 8), LAYER, nn.Linear(8, 3))
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
mean = AveragedModel(brain)
"""
WRAPPED = "mean = dd.wrap(AveragedModel(brain), trained=False)"
AVERAGES = {
    "updated": ("nn.BatchNorm1d(8)", "update_bn(feed, mean)\n", [WRAPPED]),
    "only evaluated": ("nn.BatchNorm1d(8)", "", []),
    "of no batch normalisation": ("nn.ReLU()", "update_bn(feed, mean)\n", []),
}


@pytest.mark.parametrize(("layer", "update", "expected"), AVERAGES.values(), ids=AVERAGES)
def test_an_averaged_model_whose_statistics_are_taken_anew(
    tmp_path: Path, layer: str, update: str, expected: list[str]
) -> None:
    """Those of the global batches; the copy inside keeps the keys of its state."""
    after = (
        "mean.eval()\nfor a, b in check:\n    mean(a)\ntorch.save(mean.module.state_dict(), 'x')\n"
    )
    text = HEAD + AVERAGE.replace("LAYER", layer) + STEP + "mean.update_parameters(brain)\n"
    lines = added(tmp_path, text + update + after)
    assert [line for line in lines if "Averaged" in line] == expected
    assert "dd.save(mean.module.state_dict(), 'x')" in lines


@pytest.mark.parametrize(
    "maker", ["torch.hub.load('owner/eyes', 'small')", "torch.jit.load('e.pt')"]
)
def test_a_loaded_module_sees_each_sample_alone(tmp_path: Path, maker: str) -> None:
    text = HEAD + f"eyes = {maker}.eval()\n" + STEP.replace("brain(a)", "brain(seen)")
    seen = "    with torch.no_grad():\n        seen = eyes.forward_features(a)['patches']\n"
    text = text.replace("    penalty =", seen + "    penalty =", 1)
    lines = added(tmp_path, text)
    assert "penalty = dd.mean(F.cross_entropy(brain(seen), b))" in lines
    assert not any("dd.gather(" in line for line in lines)
