"""Settings that the script sets, and that something else may set otherwise afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from tests.convert.examples import HEAD, STEP, added, convert_text

OWN = "class Settings:\n    pass\n\n\ncfg = Settings()\n"
UNREAD = "from yacs.config import CfgNode\ncfg = CfgNode()\n"
SET = 'cfg.kind, cfg.dim, cfg.size = "mean", 1, 6\n'
KEYS = "json.load(open('c.json'))"
CHANGED = [
    f"{UNREAD}{SET}cfg.merge_from_file('c.yaml')\n",
    f"{UNREAD}{SET}top = CfgNode()\ntop.train = cfg\ntop.merge_from_file('c.yaml')\n",
    f"{OWN}{SET}vars(cfg).update({KEYS})\n",
    f"{OWN}{SET}cfg.__dict__.update({KEYS})\n",
    f"{OWN}{SET}for key, held in {KEYS}.items():\n    setattr(cfg, key, held)\n",
    f"class Settings:\n    kind, dim, size = 'mean', 1, 6\n\n\ncfg = Settings()\n"
    f"cfg.__dict__.update({KEYS})\n",
    f"from types import SimpleNamespace\ncfg = SimpleNamespace(kind='mean', dim=1, size=6)\n"
    f"vars(cfg).update({KEYS})\n",
]
KEPT = [
    f"{UNREAD}{SET}",
    f"{OWN}{SET}print(vars(cfg).items())\n",
]
LOSS = "    penalty = nn.CrossEntropyLoss(reduction=cfg.kind)(brain(a), b)\n"
ALONG = "    penalty = F.nll_loss(brain(a).log_softmax(cfg.dim), b)\n"
PLAIN = "    penalty = F.cross_entropy(brain(a), b)\n"


def text_of(settings: str, loss: str) -> str:
    head = HEAD.replace("batch_size=6, shuffle", "batch_size=cfg.size, shuffle", 1)
    head = head.replace("features, labels =", f"import json\n{settings}features, labels =", 1)
    return head + STEP.replace(PLAIN, loss)


@pytest.mark.parametrize("settings", CHANGED)
def test_a_reduction_that_may_be_another_is_refused(tmp_path: Path, settings: str) -> None:
    with pytest.raises(DdpifyError):
        convert_text(tmp_path, text_of(settings, LOSS))


@pytest.mark.parametrize("settings", CHANGED)
def test_a_dimension_that_may_be_another_gets_all_samples(tmp_path: Path, settings: str) -> None:
    assert any("dd.gather(" in line for line in added(tmp_path, text_of(settings, ALONG)))


@pytest.mark.parametrize("settings", CHANGED)
def test_other_settings_are_no_matter(tmp_path: Path, settings: str) -> None:
    lines = added(tmp_path, text_of(settings, PLAIN))
    assert any("dd.mean(F.cross_entropy(brain(a), b))" in line for line in lines)
    assert not any("gather" in line for line in lines)


@pytest.mark.parametrize("settings", KEPT)
def test_settings_that_nothing_changes_are_as_they_are_set(tmp_path: Path, settings: str) -> None:
    lines = added(tmp_path, text_of(settings, LOSS))
    assert any("dd.mean(nn.CrossEntropyLoss(reduction=cfg.kind)" in line for line in lines)
