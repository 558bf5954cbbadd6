"""Layers that mix samples are found wherever PyTorch's containers hold them, and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import Options, convert_file
from tests.soundness.known_forms import script

LISTED = [
    "layers = nn.ModuleList([nn.Tanh(), nn.Softmax(0)])\nfor layer in layers:\n    h = layer(h)",
    "layers = nn.ModuleList([nn.Tanh(), nn.Softmax(0)])\n"
    "h = functools.reduce(lambda x, layer: layer(x), layers, h)",
    "layers = nn.ModuleList([nn.ModuleList([nn.Tanh(), nn.Softmax(0)])])\n"
    "for first, second in layers:\n    h = h + second(first(h))",
    "layers = nn.ModuleDict({'a': nn.Tanh(), 'b': nn.Softmax(0)})\n"
    "for layer in layers.values():\n    h = h + layer(h)\n"
    "for name, layer in layers.items():\n    h = h + layer(h)\n"
    "for name in ('a', 'b'):\n    h = h + layers[name](h)",
    "layers = nn.ModuleList([nn.MaxPool1d(3, 1, 1)])\n"
    "for layer in layers:\n    h = h + layer(h.T).T",
]
IN_A_ROW = [
    "h = nn.Sequential(nn.Tanh(), nn.Sequential(nn.Tanh(), nn.Softmax(0)))(h)",
    "layers = nn.Sequential(nn.Tanh()).append(nn.Softmax(0))\nh = h + layers(h)\n"
    "other = nn.Sequential()\nother.add_module('s', nn.Softmax(0))\nh = h + other(h)",
    "layers = collections.OrderedDict([('a', nn.Tanh()), ('s', nn.Softmax(0))])\n"
    "h = h + nn.Sequential(layers)(h) + nn.Sequential(layers).forward(h)\n"
    "h = h + nn.Softmax(0).forward(h) + nn.Softmax(0).__call__(h)",
]
OF_AS_MANY_DIMENSIONS = (
    "class Block(nn.Module):\n    def forward(self, x):\n"
    "        return x + F.pad(x, (1, -1, 0, 0))\n"
    "blocks = []\nfor _ in range(3):\n    blocks.append(Block())\n"
    "h = h + nn.Sequential(*blocks, nn.Tanh())(h[:, None])[:, 0]"
)
DERIVED = [
    "class Row(nn.Sequential):\n    pass\nclass Scale(nn.Softmax):\n    pass\n"
    "h = h + Row(nn.Tanh(), nn.Softmax(0))(h) + Scale(0)(h)",
    "class Row(nn.Sequential):\n    def forward(self, x):\n        return 2 * super().forward(x)\n"
    "class Scale(nn.Softmax):\n    def __init__(self):\n        super().__init__(dim=0)\n"
    "h = h + Row(nn.Softmax(0))(h) + Scale()(h)",
]
OF_THE_LOOP = [
    "class Row(nn.Sequential):\n    def forward(self, x):\n        for layer in self:\n"
    "            x = layer(x)\n        return x\n"
    "loss = loss + Row(nn.Softmax(0))(out).pow(2).mean()",
    "z = F.layer_norm(out, out.shape) + F.rms_norm(out, out.size())\n"
    "z = z + F.layer_norm(out, out.shape[1:])\nloss = loss + (z - targets).pow(2).mean()",
]
PARAMETERS = [
    "first, second = nn.Parameter(h.detach().mean(0)), nn.Parameter(h.detach()[0])\n"
    "h = h - first * second / nn.Parameter(data=h.detach().abs().max())",
    "held, kept = nn.ParameterList([h.detach().mean(0)]), nn.Buffer(h.detach().mean(0))\n"
    "h = h - held[0] + nn.ParameterDict({'m': nn.Parameter(h.detach().amax(0))})['m'] * kept",
]


@pytest.mark.parametrize("lines", [*LISTED, *IN_A_ROW, *DERIVED, *PARAMETERS])
def test_layers_get_the_samples_of_all_ranks(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_layers_that_treat_each_sample_alone_get_their_own(trial: Trial, tmp_path: Path) -> None:
    lines = (
        "layers = nn.ModuleList([nn.AvgPool2d(1), nn.Flatten(), nn.MaxPool1d(1), nn.Tanh()])\n"
        "x = h.view(-1, 1, 2, 2)\nfor i in (0, 1, 3):\n    x = layers[i](x)\n"
        "h = h + x + nn.ModuleDict({'s': nn.Softmax(-1)})['s'](h)"
    )
    text = script("forward", lines)
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    assert b"dd.gather(" not in convert_file(tmp_path / "script.py", Options()).data
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", OF_THE_LOOP)
def test_layers_that_the_loop_calls(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_blocks_keep_the_number_of_dimensions(trial: Trial, tmp_path: Path) -> None:
    text = script("forward", OF_AS_MANY_DIMENSIONS)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
    path = tmp_path / "script.py"
    path.write_text(text)
    assert "dd.gather" not in convert_file(path).data.decode()


BLOCKS = (
    "class Block(nn.Module):\n    def forward(self, both):\n        a, b = both[0], both[1]\n"
    "        out = [a + torch.tanh(b), b * 2]\n        return out\n"
    "class Start(nn.Module):\n    def forward(self, x):\n        return [x, x - 1]\n"
    "class End(nn.Module):\n    def forward(self, both):\n        return both[0] * both[1]\n"
)
OF_SEVERAL_TENSORS = [
    "both = nn.Sequential(*[Block() for _ in range(2)])([h, h * 2])\nh = both[0]",
    "both = nn.Sequential(Block(), nn.Sequential(Block(), Block()))([h, h * 2])\nh = both[-1]",
    "layers = nn.Sequential(nn.Tanh())\nlayers.add_module('s', Start())\nh = layers(h)[0]",
    "layers = collections.OrderedDict([('a', Start()), ('b', Block())])\n"
    "h = nn.Sequential(layers)(h)[1]",
    "layers = nn.ModuleDict({'a': Start(), 'b': Block()})\nh = layers['b'](layers['a'](h))[0]",
    "h = nn.Sequential(Start(), Block(), End(), nn.Tanh())(h)",
    "h = h - nn.Sequential(Start(), End())(h).mean(0)",
]


@pytest.mark.parametrize("lines", OF_SEVERAL_TENSORS)
def test_an_item_of_several_tensors_of_a_container_is_no_sample(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", BLOCKS + lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
