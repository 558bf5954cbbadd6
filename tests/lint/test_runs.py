"""What the rules find in the files of a run of several processes, by who calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint import runner
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Diagnostic
from ddpify.understanding.text_imports import highest_imported
from tests.lint.setups import SETUPS

TRAINER = """\
import json
import torch
import torch.nn.functional as F

def note(path, total):
    with open(path, "w") as file:
        json.dump({"loss": total}, file)

def save(net):
    torch.save(net.state_dict(), "net.pt")

class Trainer:
    def __init__(self, model, rank):
        self.model, self.rank = model, rank
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            loader.sampler.set_epoch(epoch)
            total = 0.0
            for x, y in loader:
                loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            if self.rank == 0:
                print("loss", total)
            note("loss.json", epoch)
        save(self.model.module)
"""
ENTRY = (
    "from trainer import Trainer\n"
    + SETUPS["distributed"].split("optimizer =")[0]
    + 'if __name__ == "__main__":\n    Trainer(model, rank).fit(loader, epochs)\n'
)
MARK = """
def mark(epoch):
    with open("done", "w") as file:
        file.write(str(epoch))
"""
FOUND = [("trainer.py", 6, "DDP501"), ("trainer.py", 10, "DDP501"), ("trainer.py", 28, "DDP405")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trainer.py").write_text(TRAINER)
    (tmp_path / "train.py").write_text(ENTRY)
    return tmp_path


def linted(folder: Path, *names: str) -> list[Diagnostic]:
    paths = [folder / name for name in names] or sorted(folder.rglob("*.py"))
    settings = Settings(root=folder)
    results = runner.lint_files(paths, settings, folders=[folder], jobs=1, cached=False)
    return [one for _, result in results for one in result.found]


def places(found: list[Diagnostic]) -> list[tuple[str, int, str]]:
    return [(Path(one.path).name, one.span.line, one.code) for one in found]


def test_it_is_said_where_it_stands(project: Path) -> None:
    assert places(linted(project)) == FOUND


def test_where_that_file_is_not_linted_it_is_said_at_the_call(project: Path) -> None:
    (found,) = linted(project, "train.py")
    assert (found.code, found.span.line) == ("DDP501", len(ENTRY.splitlines()))
    assert "trainer.py:10" in found.message


def test_a_file_that_ranks_run_is_no_script_of_one_process(project: Path) -> None:
    """By itself it trains in one process: for several, it would be converted."""
    assert all(one.single for one in linted(project, "trainer.py"))
    assert not any(one.single for one in linted(project))


def test_callers_that_are_rank_zero_alone(project: Path) -> None:
    guarded = TRAINER.replace(
        "            note(", "            if self.rank == 0:\n                note("
    )
    guarded = guarded.replace("        save(", "        if self.rank == 0:\n            save(")
    (project / "trainer.py").write_text(guarded)
    assert [code for _, _, code in places(linted(project))] == ["DDP405"]


def test_a_comment_there_silences_it(project: Path) -> None:
    ignored = 'print("loss", total)  # ddpify: ignore[DDP405]'
    (project / "trainer.py").write_text(TRAINER.replace('print("loss", total)', ignored))
    assert places(linted(project)) == FOUND[:2]


def test_a_fix_that_can_be_made_at_the_call_is_kept(project: Path) -> None:
    entry = ENTRY.replace("Trainer(model", "save(model.module)\n    Trainer(model")
    (project / "train.py").write_text(entry.replace("import Trainer", "import Trainer, save"))
    trainer = TRAINER.replace("        save(self.model.module)\n", "")
    (project / "trainer.py").write_text(trainer)
    (found,) = (one for one in linted(project) if "save()" in one.message)
    assert (Path(found.path).name, found.fixable) == ("train.py", True)


def test_a_training_is_not_left_to_rank_zero(project: Path) -> None:
    """The call that leads to a write is that of all: a fix would stop the other ranks."""
    (found,) = linted(project, "train.py")
    assert found.code == "DDP501" and not found.fixable


def test_a_sampler_that_is_told_no_epoch_is_said_once(project: Path) -> None:
    told = "            loader.sampler.set_epoch(epoch)\n"
    (project / "trainer.py").write_text(TRAINER.replace(told, ""))
    (project / "data.py").write_text(
        "from torch.utils.data import DataLoader\n"
        "from torch.utils.data.distributed import DistributedSampler\n\n"
        "def build(dataset):\n"
        "    return DataLoader(dataset, 8, sampler=DistributedSampler(dataset))\n"
    )
    entry = ENTRY.replace("fit(loader,", "fit(build(dataset),").replace(
        "from trainer", "from data import build\nfrom trainer"
    )
    (project / "train.py").write_text(entry)
    assert [one for one in places(linted(project)) if one[2] == "DDP102"] == [
        ("data.py", 5, "DDP102")
    ]


PARTS = """\
import torch
from torch.utils.data import DataLoader, DistributedSampler

def build(dataset, training):
    if training:
        sampler = {sampler}
    else:
        sampler = DistributedSampler(dataset, shuffle=False)
    return DataLoader(dataset, 8, sampler=sampler), sampler
"""
STEPS = """\
import torch.nn.functional as F

def fit(model, optimizer, loader, epochs, sampler):
    for epoch in range(epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        batches = iter(loader)
        for _ in range(len(loader)):
            x, y = next(batches)
            F.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
"""
STARTS = (
    "from parts import build\nfrom steps import fit\n"
    + SETUPS["distributed"].replace(
        "loader = DataLoader(dataset, 32, sampler=sampler)",
        "loader, sampler = build(dataset, training=True)",
    )
    + "fit(model, optimizer, loader, epochs, sampler)\n"
)


@pytest.mark.parametrize(
    ("sampler", "found"),
    [("DistributedSampler(dataset)", []), ("None", [("parts.py", 9, "DDP101")])],
)
def test_a_loader_that_another_file_goes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampler: str, found: list[object]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts.py").write_text(PARTS.format(sampler=sampler))
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "train.py").write_text(STARTS)
    assert places(linted(tmp_path)) == found


def test_a_layer_that_no_forward_uses_where_its_class_stands(project: Path) -> None:
    net, rest = SETUPS["distributed"].split("class Net", 1)[1].split("\n\n\n", 1)
    head = SETUPS["distributed"].split("class Net", 1)[0]
    spare = net.replace(
        "    def forward", "        self.spare = nn.Linear(10, 2)\n\n    def forward", 1
    )
    (project / "net.py").write_text(f"import torch.nn as nn\n\n\nclass Net{spare}\n")
    loop = "for x, y in loader:\n    criterion(model(x.to(device)), y.to(device)).backward()\n"
    (project / "train.py").write_text(f"from net import Net\n{head}{rest}{loop}")
    found = [where for where in places(linted(project)) if where[-1] == "DDP316"]
    assert [name for name, _, _ in found] == ["net.py"]


@pytest.mark.parametrize("command", ["tools/train.py", "tools"])
def test_a_project_without_a_mark_is_read_from_where_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    root, folder = tmp_path / "work" / "project", tmp_path / "work" / "project" / "tools"
    for above in ("tools", "engine"):
        (root / above).mkdir(parents=True)
    (root / "engine" / "trainer.py").write_text(TRAINER)
    (folder / "train.py").write_text(ENTRY.replace("from trainer", "from engine.trainer"))
    monkeypatch.chdir(root)
    folders = [Path(command)] if command == "tools" else []
    (done,) = runner.lint_files(
        [Path("tools/train.py")], Settings(root=root), folders=folders, jobs=1, cached=False
    )
    assert [one.code for one in done[1].found] == ["DDP501"]


def test_the_root_is_no_higher_than_what_is_imported(tmp_path: Path) -> None:
    entry = tmp_path / "project" / "tools" / "train.py"
    entry.parent.mkdir(parents=True)
    for path in ("engine.py", "project/engine.py", "project/models/net.py", "trainer.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    (entry.parent / "trainer.py").write_text("")
    text = "import torch, trainer\nfrom engine import run\nfrom models.net import Net\n"
    assert highest_imported(text, entry, tmp_path) == tmp_path / "project"
    assert highest_imported("import torch, trainer\n", entry, tmp_path) is None
    assert highest_imported(text, entry, tmp_path / "other") is None


def test_a_call_that_leads_to_several_places_names_them_all(project: Path) -> None:
    (found,) = linted(project, "train.py")
    assert "open() in trainer.py:6 and save() in trainer.py:10" in found.message
    (project / "helpers.py").write_text(MARK)
    marked = TRAINER.replace("        save(", "        mark(epochs)\n        save(")
    (project / "trainer.py").write_text("from helpers import mark\n" + marked)
    said = linted(project, "train.py", "trainer.py")
    assert ["helpers.py:3" in one.message for one in said if one.path.endswith("train.py")] == [
        True
    ]
    assert not any(Path(one.path).name == "train.py" for one in linted(project))


def test_a_file_that_does_not_compile_hides_no_other(project: Path) -> None:
    (project / "layers.py").write_text("WIDTH = 3\nif WIDTH > 4:\n    return\n")
    (project / "trainer.py").write_text("from layers import WIDTH\n" + TRAINER)
    found = places(linted(project))
    assert ("layers.py", 3, "DDP000") in found
    assert [(name, line - 1, code) for name, line, code in found if name == "trainer.py"] == FOUND
