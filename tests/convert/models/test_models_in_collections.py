"""Several models, which a loop makes and puts into a list, a dictionary, or another object."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import types
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(22, 6), torch.randn(22, 3))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(6, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


class Box:
    pass


def fit(model, lr=0.1):
    loader = DataLoader(data, batch_size=5, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(loss.item())


"""
_ALL = "for model in models:\n    fit(model)\n"
_VALUES = "for model in models.values():\n    fit(model)\n"
_BOXES = "for box in boxes:\n    fit(box.net)\n"
_LOOP = "models = []\nfor width in (3, 4):\n"
_BOXED = "boxes = []\nfor width in (3, 4):\n    box = Box()\n"
_GROWN = "models = nn.ModuleList()\nfor width in (3, 4):\n"
MODELS = {
    "appended": f"{_LOOP}    models.append(Net(width))\n{_ALL}",
    "inserted": f"{_LOOP}    models.insert(0, Net(width).to('cpu'))\n{_ALL}",
    "by_key": f"models = {{}}\nfor width in (3, 4):\n    models[width] = Net(width)\n{_VALUES}",
    "dictionary": f"models = {{width: Net(width) for width in (3, 4)}}\n{_VALUES}",
    "generator": f"models = tuple(Net(width) for width in (3, 4))\n{_ALL}",
    "pairs": f"{_LOOP}    models.append((Net(width), width))\nfor m, _ in models:\n    fit(m)\n",
    "records": (
        f"{_LOOP}    models.append({{'net': Net(width)}})\nfor m in models:\n    fit(m['net'])\n"
    ),
    "given": "for lr in (0.1, 0.2):\n    fit(Net(3), lr)\n",
    "moved_later": (
        f"{_LOOP}    models.append(Net(width))\n"
        "for model in models:\n    model.to('cpu')\n    fit(model)\n"
    ),
    "changed_later": (
        f"{_LOOP}    models.append(Net(width))\n"
        "for one in models:\n    one.outer = nn.Linear(one.inner.out_features, 3)\n" + _ALL
    ),
    "attributes": f"{_BOXED}    box.net = Net(width)\n    boxes.append(box)\n{_BOXES}",
    "attributes_of_a_branch": (
        f"{_BOXED}    if width > 3:\n        box.net = Net(width)\n"
        f"    else:\n        box.net = Net(5)\n    boxes.append(box)\n{_BOXES}"
    ),
    "namespaces": (
        "boxes = []\nfor width in (3, 4):\n"
        f"    boxes.append(types.SimpleNamespace(net=Net(width)))\n{_BOXES}"
    ),
    "module_list": f"{_GROWN}    models.append(Net(width))\n{_ALL}",
    "module_list_added": f"{_GROWN}    models += [Net(width)]\n{_ALL}",
    "module_dict": (
        "models = nn.ModuleDict()\nfor width in (3, 4):\n"
        f"    models[str(width)] = Net(width)\n{_VALUES}"
    ),
    "grown_between": (
        "models = nn.ModuleList([Net(3)])\nfit(models[0])\nmodels.append(Net(4))\nfit(models[1])\n"
    ),
}


@pytest.mark.parametrize("models", MODELS.values(), ids=MODELS)
def test_each_is_trained_on_all_ranks(trial: Trial, models: str) -> None:
    verdict = trial.verdict(SCRIPT + models)
    assert verdict.outcome is Outcome.SAME, verdict


def test_an_iterator_over_them_is_wrapped_as_none(trial: Trial) -> None:
    verdict = trial.verdict(f"{SCRIPT}models = list(map(Net, (3, 4)))\n{_ALL}")
    assert verdict.outcome is Outcome.REFUSED, verdict
