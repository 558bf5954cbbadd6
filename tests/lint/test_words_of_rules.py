"""Files without any word that a rule looks for are not interpreted, whatever they import."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.checking import read_by_rules
from ddpify.lint.config import Settings
from ddpify.lint.files.relevance import files_without_training
from ddpify.lint.registry import load_all
from ddpify.source import read_source
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Facts
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.project import Project

_LOADERS = """
from torch.utils.data.distributed import DistributedSampler

MEAN, KIND = 0.5, DistributedSampler
"""
_NETWORK = """
from loaders import MEAN
from torch import nn

class Network(nn.Module):
    def __init__(self, global_pool="avg"):
        super().__init__()
        self.global_pool, self.mean = global_pool, MEAN
{lines}
"""


@pytest.mark.parametrize(
    ("lines", "runs"),
    [
        ("", 0),
        ("        self.paths = glob.glob('*.pt')", 1),
        ("        self.paths = Path().rglob('*.pt')", 1),
        ("        self.seed = 1 + get_global_rank()", 1),
        ("        self.seed = 1 + args.globalrank", 1),
    ],
)
def test_global_is_no_glob(
    lines: str, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network with global pooling lists no files; a rank's number or a pattern is looked at."""
    seen: list[Project] = []

    def counted(project: Project, choices: Choices, **options: bool) -> Facts:
        seen.append(project)
        return interpret(project, choices, **options)

    monkeypatch.setattr("ddpify.lint.scripts.understood.interpret", counted)
    (tmp_path / "loaders.py").write_text(_LOADERS)
    network = tmp_path / "network.py"
    network.write_text(_NETWORK.format(lines=lines))
    codes = {one.code for one in load_all()}
    read = read_by_rules(read_source(network), tmp_path, Settings(), codes)
    assert (read.failure, len(seen)) == (None, runs)


@pytest.mark.parametrize(
    ("line", "trains"),
    [
        ("# kept for backward compatibility", False),
        ("# renamed, which is backwards-compatible", False),
        ("def backward(context, grad): return grad", True),
        ("step = loss.backward", True),
        ("# backward compatible\nloss.backward()", True),
    ],
)
def test_what_is_compatible_trains_nothing(line: str, trains: bool, tmp_path: Path) -> None:
    """A comment on older versions is no training; a gradient of a function's own may be one."""
    script = tmp_path / "model.py"
    script.write_text(f"import torch\n{line}\n")
    quiet = files_without_training(read_source(script), tmp_path)
    assert (quiet is None) is trains
