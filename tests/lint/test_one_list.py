"""A script of one process: what lint lists is what convert does, file by file and line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ddpify.codes import BY_NAME
from ddpify.convert import Refusal, convert_file
from ddpify.convert.project import convert_folder
from ddpify.lint import runner
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Diagnostic
from ddpify.lint.registry import load
from ddpify.lint.scripts.script_kinds import CONVERTED, SINGLE
from tests.conftest import Ddpify
from tests.lint.setups import SETUPS

FIXTURES = Path(__file__).parents[2] / "fixtures"
ENTRIES = ["batchnorm_cnn/train.py", "trainer_project/tools/train.py", "adversarial/train.py"]
TRAINER = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

def fit(model, dataset):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(dataset, 8, shuffle=True):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
"""
ENTRY = """\
from trainer import fit
import data

if __name__ == "__main__":
    fit(data.model(), data.samples())
"""
DATA = """\
import torch
from torch.utils.data import TensorDataset

def model():
    return torch.nn.Linear(4, 1)

def samples():
    return TensorDataset(torch.randn(20, 4), torch.randn(20, 1))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("trainer", TRAINER), ("train", ENTRY), ("data", DATA)):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def listed(folder: Path, *names: str) -> list[Diagnostic]:
    paths = [folder / name for name in names] or sorted(folder.rglob("*.py"))
    results = runner.lint_files(
        paths, Settings(root=folder), folders=[folder], jobs=1, cached=False
    )
    return [one for _, result in results for one in result.found if one.single]


def points(found: list[Diagnostic], folder: Path) -> set[tuple[str, int, str]]:
    return {
        (Path(one.path).resolve().relative_to(folder.resolve()).as_posix(), one.span.line, text)
        for one in found
        for text in [one.message.removeprefix("look at this: ")]
    }


@pytest.mark.parametrize("name", ENTRIES)
def test_the_list_is_what_convert_says(name: str) -> None:
    folder = FIXTURES / name.split("/")[0]
    made = convert_folder(folder, [Path(name).relative_to(folder.name)])
    said = {
        (path.as_posix(), note.line, note.text)
        for path, conversion in made.files.items()
        for note in conversion.notes
    }
    assert said and points(listed(folder), folder) == said


def test_a_training_in_another_file_is_listed_there(project: Path) -> None:
    assert points(listed(project), project) == {
        ("data.py", 5, "model wrapped in DistributedDataParallel"),
        ("trainer.py", 7, "loader split among the ranks"),
        ("trainer.py", 8, "F.mse_loss(model(x), y): the mean over the global batch"),
    }


def test_a_comment_there_silences_it_and_is_used(project: Path) -> None:
    ignored = "shuffle=True):  # ddpify: ignore[DDP101]"
    (project / "trainer.py").write_text(TRAINER.replace("shuffle=True):", ignored))
    found = runner.lint_files(
        sorted(project.glob("*.py")), Settings(root=project), jobs=1, cached=False
    )
    codes = [one.code for _, result in found for one in result.found]
    assert sorted(codes) == ["DDP305", "DDP413"]


def test_why_not_is_said_where_the_training_starts(project: Path) -> None:
    taken = "torch.autograd.grad(loss, [*model.parameters()], create_graph=True)"
    text = TRAINER.replace("loss.backward()", f"{taken}[0].sum().backward()")
    (project / "trainer.py").write_text(text)
    with pytest.raises(Refusal) as refused:
        convert_folder(project, [Path("train.py")])
    reasons = [one for one in listed(project) if one.code == "DDP002"]
    assert [Path(one.path).name for one in reasons] == ["train.py"]
    assert reasons[0].message == (
        f"not converted: trainer.py:{refused.value.line}: {refused.value.message}"
    )


def test_steps_by_hand_are_a_training(tmp_path: Path) -> None:
    text = SETUPS["single"].replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    by_hand = "for p in model.parameters():\n        p.data -= 0.1 * p.grad"
    for old, new in (("optimizer.zero_grad()", "model.zero_grad()"), ("optimizer.step()", by_hand)):
        text = text.replace(old, new)
    (tmp_path / "train.py").write_text(text)
    assert {one.code for one in listed(tmp_path)} == {"DDP101", "DDP305", "DDP413"}


def test_a_file_that_nothing_starts_is_not_refused(project: Path) -> None:
    assert all(one.code != "DDP002" for one in listed(project, "trainer.py"))


def test_the_reason_is_that_of_convert(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    step = "    torch.autograd.grad(model(x).sum(), [*model.parameters()], create_graph=True)\n"
    path.write_text(f"{SETUPS['single']}for x, y in loader:\n{step}")
    with pytest.raises(Refusal) as refused:
        convert_file(path)
    first = next(one for one in listed(tmp_path) if one.code == "DDP002")
    assert (first.span.line, first.message) == (
        refused.value.line,
        f"not converted: {refused.value.message}",
    )


def test_other_files_are_mentioned_where_one_is_asked_for(project: Path, ddpify: Ddpify) -> None:
    assert "there is more in data.py, trainer.py" in ddpify("lint", "train.py").stderr
    assert "there is more" not in ddpify("lint", ".").stderr


def test_what_convert_does_not_mend_is_no_part_of_the_list(project: Path, ddpify: Ddpify) -> None:
    (project / "train.py").write_text(SETUPS["single"] + "scaler = torch.cuda.amp.GradScaler()\n")
    out = ddpify("lint", "train.py").stdout
    assert "DDP901 cuda-amp " in out.split("trains in one process")[0]
    concise = ddpify("lint", "train.py", "--output-format", "concise").stdout
    assert "DDP101 missing-distributed-sampler: for several processes: loader split" in concise


@pytest.mark.parametrize(("made", "code"), [("ones", "DDP003"), ("randn", "DDP601")])
def test_only_what_is_drawn_is_about_seeds(tmp_path: Path, made: str, code: str) -> None:
    text = SETUPS["single"].replace(
        "criterion(model(x), y)", f"(model(x) + torch.{made}(ROWS, 2)).mean()"
    )
    text = text.replace("epochs = 10\n", "ROWS = 32\n").replace("dataset, 32", "dataset, ROWS")
    (tmp_path / "train.py").write_text(text)
    found = {one.message: one.code for one in listed(tmp_path, "train.py")}
    assert found.get(f"torch.{made}(ROWS, 2): this rank's rows of the global batch's") == code


def test_what_convert_names_is_in_the_list_for_one_process() -> None:
    texts = [path.read_text() for path in (FIXTURES.parent / "codemods").rglob("*.py")]
    named = {
        word for text in texts for word in re.findall(r'"([a-z0-9-]+)"', text)
    } & BY_NAME.keys()
    assert len(named) > 10
    for name in named:
        assert load(BY_NAME[name]).applies & {CONVERTED, SINGLE}, name
