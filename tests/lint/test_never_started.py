"""A file beside what starts a training is interpreted only where it may run that."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.checking import read_by_rules
from ddpify.lint.config import Settings
from ddpify.lint.files.relevance import files_never_started
from ddpify.lint.registry import load_all
from ddpify.source import read_source
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Facts
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.project import Project

_LOADERS = '''
"""Loaders; see make_parts."""
from torch import nn
from torch.utils.data.distributed import DistributedSampler

MEAN = 0.5

def make_parts(data):
    return DistributedSampler(data)

class Loader:
    def parts(self, data):
        return make_parts(data)

    def own(self):
        return self.parts([])

    def other(self, name):
        return name

class Asking(Loader):
    def ask(self, name):
        return getattr(self, name)

class Adding:
    def __add__(self, data):
        return make_parts(data)

class Layer(nn.Module):
    def forward(self, data):
        return make_parts(data)

class WithAProperty:
    @property
    def size(self):
        return make_parts([])

def loader():
    return Loader()

def std(default=MEAN):
    """Not that of make_parts."""
    return default
'''
_TOOLS = """
def find(module, name):
    return getattr(module, name)

def first(held):
    return find(held, "mean")

class Registry:
    def find(self, name):
        return getattr(self, name)
"""
_NETWORK = """
{above}
from data.loaders import MEAN, std
from torch import nn

class Network(nn.Module):
    def __init__(self, global_pool="avg"):
        super().__init__()
        self.mean = MEAN
        {inside}

    def save(self):
        torch.save(self.state_dict(), "network.pt")
"""
# Above the network, and in its constructor.
QUIET = [
    ("", "self.std = std()"),
    ("# make_parts", "self.text = None"),
    ("", "assert global_pool, 'make_parts first'"),
    ("", "raise ValueError(f'{global_pool}: make_parts first')"),
    ("from data import loaders", "self.std = loaders.std()"),
    ("from data.loaders import make_parts", "pass"),
    ("__all__ = ['make_parts']", "pass"),
    ("from tools import find", "self.name = find(self, global_pool)"),
    ("from tools import Registry", "self.pool = Registry().find(global_pool)"),
    ("import data.loaders", "self.std = getattr(data.loaders, 'std')()"),
    ("from data import loaders", "self.std = getattr(loaders, f'std{global_pool}')"),
    ("from data import loaders", "self.eval()"),
    ("def show(): print(locals())", "show()"),
    ("from data.loaders import Loader", "self.kept = Loader().other(global_pool)"),
    ("from data.loaders import Asking", "self.kept = Asking().ask(global_pool)"),
    ("from twice import loaders", "self.kept = getattr(loaders, global_pool)"),
]
REACHED = [
    ("from data.loaders import make_parts", "make_parts([])"),
    ("from data.loaders import make_parts as made", "made([])"),
    ("from data.loaders import loader", "loader().parts([])"),
    ("from data.loaders import make_parts", "assert make_parts([]), 'no parts'"),
    ("from data.loaders import make_parts", "raise ValueError(make_parts([]))"),
    ("from data.loaders import Loader", "Loader().own()"),
    ("from data.loaders import Loader", "getattr(Loader(), 'PA'.lower() + 'rts')([])"),
    ("from data.loaders import Loader\nNAME = 'pa' + 'rts'", "getattr(Loader(), NAME)([])"),
    ("from data.loaders import Loader", "getattr(Loader(), 'pa' + 'rts')([])"),
    ("from data.loaders import Asking", "Asking().ask('pa' + 'rts')()"),
    ("from data.loaders import Adding", "Adding() + []"),
    ("from data.loaders import Layer", "Layer()([])"),
    ("from data.loaders import WithAProperty as P", "P()"),
    ("from data.loaders import *", "make_parts([])"),
    ("from data import loaders", "loaders.make_parts([])"),
    ("from data import loaders", "getattr(loaders, 'make_parts')([])"),
    ("from data import loaders", "getattr(loaders, 'make_' + global_pool)([])"),
    ("from data import loaders", "getattr(loaders, f'make_{global_pool}')([])"),
    ("from data import loaders", "getattr(loaders, 'make_{}'.format(global_pool))([])"),
    ("from data import loaders", "getattr(loaders, global_pool)([])"),
    ("from data import loaders", "loaders.__dict__[global_pool]([])"),
    ("from data import loaders", "vars(loaders)[global_pool]([])"),
    ("from data import loaders as given\nfrom tools import find", "find(given, global_pool)([])"),
    ("import data.loaders\nfrom tools import find", "find(data.loaders, global_pool)([])"),
    ("import importlib", "importlib.import_module('data.loaders').make_parts([])"),
    ("from data.loaders import *", "globals()[global_pool]([])"),
    ("from data.loaders import *", "eval(global_pool)([])"),
    ("from kept import KEPT", "KEPT[0]([])"),
    ("from decorated import anything", "pass"),
    ("from by_default import anything", "pass"),
    ("from of_a_class import Anything", "pass"),
    ("from noted import Base", "Base()"),
]
_OTHERS = {
    "kept.py": "from data.loaders import make_parts\nKEPT = [make_parts]\n",
    "decorated.py": "from data.loaders import make_parts\n@make_parts\ndef anything(): pass\n",
    "by_default.py": (
        "from data.loaders import make_parts\ndef anything(x=make_parts([])): pass\n"
    ),
    "of_a_class.py": (
        "from data.loaders import make_parts\nclass Anything:\n    made = make_parts([])\n"
    ),
    "noted.py": (
        "from data.loaders import make_parts\n"
        "class Base:\n    def __init_subclass__(cls): cls.made([])\n"
        "class Other(Base):\n    made = staticmethod(make_parts)\n"
    ),
    # A package's own name comes before the file of that name.
    "twice/__init__.py": "from .loaders import loaders\n",
    "twice/loaders.py": "def loaders(): return 1\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {"data/loaders.py": _LOADERS, "tools.py": _TOOLS, **_OTHERS}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "data" / "__init__.py").write_text("")
    return tmp_path


def written(project: Path, above: str, inside: str) -> Path:
    network = project / "network.py"
    network.write_text(_NETWORK.format(above=above, inside=inside))
    return network


@pytest.mark.parametrize(
    ("lines", "runs"), [*((one, 0) for one in QUIET), *((one, 1) for one in REACHED)]
)
def test_only_what_may_start_a_training_is_interpreted(
    lines: tuple[str, str], runs: int, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Project] = []

    def counted(project: Project, choices: Choices, **options: bool) -> Facts:
        seen.append(project)
        return interpret(project, choices, **options)

    monkeypatch.setattr("ddpify.lint.scripts.understood.interpret", counted)
    codes = {one.code for one in load_all()}
    read = read_by_rules(read_source(written(project, *lines)), project, Settings(), codes)
    assert (read.failure, len(seen)) == (None, runs)


@pytest.mark.parametrize("lines", QUIET)
def test_what_is_not_interpreted_starts_nothing(lines: tuple[str, str], project: Path) -> None:
    """The interpreter does not get there either."""
    facts = interpret(Project(read_source(written(project, *lines)), folder=project))
    assert not [name for name in facts.library_calls if name.endswith("DistributedSampler")]


def test_an_answer_depends_on_all_files_that_it_has_read(project: Path) -> None:
    quiet = files_never_started(read_source(written(project, "import tools", "pass")), project)
    assert quiet is not None
    assert {Path(one).name for one in quiet} == {"tools.py", "loaders.py"}


def test_a_changed_file_is_read_again(project: Path) -> None:
    network = written(project, "", "self.std = std()")
    assert files_never_started(read_source(network), project) is not None
    with (project / "data" / "loaders.py").open("a") as file:
        file.write("PARTS = make_parts([])\n")
    assert files_never_started(read_source(network), project) is None


def test_what_it_runs_may_train(project: Path) -> None:
    (project / "steps.py").write_text(
        "import torch\ndef step(loss): loss.backward()\ndef other(loss): return loss\n"
    )
    network = written(project, "from steps import other", "other(self.mean)")
    assert files_never_started(read_source(network), project) is not None
    network = written(project, "from steps import step", "step(self.mean)")
    assert files_never_started(read_source(network), project) is None
