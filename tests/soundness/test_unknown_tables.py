"""Rows beside what all ranks hold, where the code does not show how many dimensions that has.

It has more than the rows here: these lie along its second dimension in what both make.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.divided import assert_same_without_gathering
from tests.soundness.known_forms import script

_LISTS = "[[[0.1, 0.5, 0.2, 0.9]], [[0.3, 0.5, 0.7, 0.1]], [[1.0, 2.0, 0.0, 3.0]]]"
_DECODED = f'import json\ntable = torch.tensor(json.loads("{_LISTS}"))'
_PICKLED = f"import pickle\ntable = pickle.loads(pickle.dumps(torch.tensor({_LISTS})))"
_READ = (
    f"file = io.BytesIO()\ntorch.save({{'a': torch.tensor({_LISTS})}}, file)\nfile.seek(0)\n"
    "table = torch.load(file)['a']"
)
_GROWN = "rows = []\nfor i in range(3):\n    rows.append([[0.1 * i, 0.5, 0.2, 0.9 + i]])\n"
_DEEPER = (
    "table = torch.linspace(0, 1, 4)\nfor size in (1, 3):\n"
    "    table = table.expand(size, *table.shape) * 1.0"
)
_STACKED = (
    "table = torch.linspace(0, 1, 4)\nfor i in range(2):\n"
    "    table = torch.stack([table, table + i])\ntable = table[:, :1]"
)
SOURCES = [_DECODED, _PICKLED, _READ, f"{_GROWN}table = torch.tensor(rows)", _DEEPER, _STACKED]
ALONG = [
    "(out * table).mean(0)",
    "(table - out)[0]",
    "torch.where(table > 0.5, out, targets).sum(1)",
    "torch.maximum(out, table).softmax(1)",
    "torch.lerp(out, targets, table).flatten(1).std(1)",
    "torch.addcmul(out, table, targets).argmax(1).to(out)",
    "(out > table).to(out).mean(1)",
    "(out + table).max(0).values * targets",
    "(out + table).sort(1)[0][:, 0]",
    "(out + table).reshape(3, -1)[:, :4]",
    "torch.stack([one.max() for one in out + table])",
    "torch.einsum('abc->b', out + table)",
    "torch.cat([out * table, targets * table]).mean(0)",
    "torch.quantile(out + table, 0.5)",
    "(out + table).std()",
    "nn.Softmax(dim=1)(out + table)",
    "F.cosine_similarity(out + table, targets - table, dim=1)",
    "F.huber_loss(out, table, reduction='none').sum(1)",
    "torch.vmap(lambda one: one.max())(out + table)",
    "(out + table) / len(out + table)",
]


def written(source: str, used: str) -> str:
    """A script that uses such a table beside the rows of a batch."""
    text = script("loop", f"loss = loss + ({used}).pow(2).mean()")
    return text.replace("for epoch in", f"{source}\nfor epoch in", 1)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("used", ["(out * table).mean(0)", "(out + table).softmax(1)"])
def test_its_rows_are_those_of_all_ranks(trial: Trial, source: str, used: str) -> None:
    verdict = trial.verdict(written(source, used))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("used", ALONG)
def test_so_they_are_in_whatever_goes_by_their_place(trial: Trial, used: str) -> None:
    verdict = trial.verdict(written(_DECODED, used))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(
    "used",
    [
        "out * table",
        "(F.relu(out + table) - targets).sum() / 10",
        "F.mse_loss(out * table, targets)",
        "model(inputs * table)",
        "torch.where(table > 0.5, out, targets).abs()",
    ],
)
def test_what_treats_each_element_alone_stays_divided(
    trial: Trial, tmp_path: Path, used: str
) -> None:
    assert_same_without_gathering(trial, tmp_path, written(_DECODED, used))


NUMBERS = [
    ("import json\nc = json.loads('{\"a\": 0.5}')", "c['a']"),
    ("import math", "math.exp(-epoch)"),
    ("def warm(at):\n    return min(1.0, 0.1 * at)\n", "warm(epoch)"),
    ("def decayed(at: float, by):\n    return at / by if by > 1 else at\n", "decayed(1.0, epoch)"),
    ("best = float('inf')", "min(best, 2.0)"),
    ("steps = torch.optim.lr_scheduler.StepLR(optimizer, 1)", "steps.get_last_lr()[0]"),
    ("share = np.random.RandomState(0).beta(1, 1)", "share"),
    ("total = 0.0", "(total := 0.9 * total + loss.item())"),
]


@pytest.mark.parametrize(("source", "number"), NUMBERS)
def test_so_do_rows_beside_a_number(trial: Trial, tmp_path: Path, source: str, number: str) -> None:
    assert_same_without_gathering(trial, tmp_path, written(source, f"(out * {number}).sum(1)"))


_SETTINGS = """\
import json


class Settings:
    def __init__(self, text):
        self.__dict__.update(json.loads(text))


settings = Settings('{"alpha": 0.5}')"""


def test_so_do_rows_beside_a_setting_out_of_a_file(trial: Trial, tmp_path: Path) -> None:
    used = "(out * settings.alpha).sum(1)"
    assert_same_without_gathering(trial, tmp_path, written(_SETTINGS, used))


@pytest.mark.parametrize(
    ("source", "setting"),
    [
        ("from omegaconf import OmegaConf\ncfg = OmegaConf.load('c.yaml')", "cfg.loss.alpha"),
        ("from config import cfg", "cfg.LOSS.ALPHA"),
        ("import tomllib\ncfg = tomllib.loads('a = 1')", "cfg['a']"),
        ("import wandb\ncfg = wandb.config", "cfg.alpha"),
        ("rule = optimizer", "rule.param_groups[0]['lr']"),
    ],
)
def test_no_rows_are_gathered_before_a_setting(trial: Trial, source: str, setting: str) -> None:
    converted = trial.converted(written(source, f"(out * {setting}).softmax(1)"))
    assert isinstance(converted, str)
    assert "dd.wrap" in converted
    assert "dd.gather" not in converted


@pytest.mark.parametrize(
    ("source", "table"),
    [
        (f"import types\n{_DECODED}\nheld = types.SimpleNamespace(a=table)", "held.a"),
        ("held = torch.load('held.pt')", "held.table"),
    ],
)
def test_rows_are_gathered_before_an_attribute_that_may_be_a_table(
    trial: Trial, source: str, table: str
) -> None:
    converted = trial.converted(written(source, f"(out * {table}).softmax(1)"))
    assert "dd.gather(out)" in str(converted)
