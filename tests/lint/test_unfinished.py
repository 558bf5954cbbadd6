"""What cannot be analysed to its end is told, and all else is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddpify.lint import command, registry
from ddpify.lint.command import Options
from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from ddpify.lint.registry import Finding, Rule
from ddpify.lint.scripts.script import Script
from ddpify.planning import solver
from ddpify.planning.plan import Plan
from ddpify.planning.solver import make_plan
from ddpify.source import read_source
from ddpify.understanding import budget
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.project import Project
from tests.lint.setups import SETUPS

SCRIPT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

scaler = torch.cuda.amp.GradScaler()


def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())  # ddpify: ignore[DDP405]


def fit(rate):
    data = TensorDataset(torch.randn(8, 2), torch.randn(8, 1))
    net = torch.nn.Linear(2, 1)
    train(net, DataLoader(data, batch_size=4), torch.optim.SGD(net.parameters(), rate))


fit(0.1)
fit(0.2)
fit(0.3)
fit(0.4)
"""


def codes(path: Path) -> list[str]:
    result = lint(Document(str(path), path.read_bytes()), Settings(root=path.parent))
    assert result.failure is None
    return [one.code for one in result.found]


EPOCHS = """
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_past_its_budget_a_file_is_named_with_its_function(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "DDP004" not in codes(script)
    monkeypatch.setattr(budget, "MOST_STEPS", 100)
    result = lint(Document(str(script), script.read_bytes()), Settings(root=script.parent))
    told = next(one for one in result.found if one.code == "DDP004")
    assert (told.span.line, "fit()" in told.message) == (16, True)


def test_rules_for_names_still_report(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_STEPS", 100)
    assert codes(script) == ["DDP901", "DDP004"]  # and no comment is called unused


def test_a_file_is_read_alone_where_another_takes_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"    x = x + {number}\n" for number in range(3000))
    (tmp_path / "helper.py").write_text(f"def build(x):\n{lines}    return x\n")
    entry = tmp_path / "train.py"
    entry.write_text(SETUPS["distributed"] + "import helper\nhelper.build(1)\n" + EPOCHS)
    monkeypatch.setattr(budget, "MOST_STEPS", 3000)
    assert {"DDP004", "DDP102"} <= set(codes(entry))


CHAIN = """\
class Box: pass
box = Box()
print(box.first)
box.first = box.second
box.second = box.third
box.third = box.fourth
box.fourth = 1
"""
"""What each pass learns a step further."""


@pytest.mark.parametrize(("most", "complete"), [(1, 1), (2, 2), (3, 2), (8, 3)])
def test_what_complete_passes_have_found_is_told(
    most: int, complete: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second on; before that, what calls do is left out.

    After the second, none is begun past a third of what all may take.
    """
    entry = tmp_path / "train.py"
    entry.write_text(SETUPS["distributed"] + CHAIN + EPOCHS)
    project = Project(read_source(entry))
    interpret(project)
    monkeypatch.setattr(budget, "MOST_STEPS", project.budget.used // 5 * most + 5)
    result = lint(Document(str(entry), entry.read_bytes()), Settings(root=tmp_path))
    messages = {one.code: one.message for one in result.found}
    told = f"the findings are those of {complete} complete passes over the code"
    assert (told in messages["DDP004"]) == ("DDP102" in messages) == (complete > 1)


def test_deciding_alone_may_be_what_takes_too_long(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MOST_STEPS", 300)
    found = codes(script)
    assert "DDP004" in found
    assert "DDP901" in found


def test_deciding_that_takes_too_long_is_begun_once(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def counted(project: Project, *given: Any) -> Plan:
        begun.append(project)
        return make_plan(project, *given)

    monkeypatch.setattr(solver, "make_plan", counted)
    monkeypatch.setattr(budget, "MOST_STEPS", 300)
    assert "DDP004" in codes(script)
    assert len(begun) == len(set(map(id, begun)))  # whatever asks what convert would do


def test_the_same_script_takes_the_same_steps(script: Path) -> None:
    taken = []
    for _ in range(2):
        project = Project(read_source(script))
        interpret(project)
        taken.append(project.budget.used)
    assert taken[0] == taken[1] > 40


def test_convert_refuses_with_the_function(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ddpify.cli import main

    monkeypatch.setattr(budget, "MOST_STEPS", 300)
    out = script.with_name("out.py")
    assert main(["convert", str(script), "-o", str(out), "--force"]) == 1
    assert "train.py:16: the analysis was cut short after 300 steps" in capsys.readouterr().err
    assert not out.exists()


def test_a_rule_that_crashes_is_an_error_and_the_others_report(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(_: Script) -> Iterator[Finding]:
        raise KeyError("x")

    broken = registry.load("DDP201")
    made = Rule(
        broken.code, broken.name, "device", broken.severity, frozenset({"single"}), crash, ""
    )
    others = [one for one in registry.load_all() if one.code != "DDP201"]
    monkeypatch.setattr(registry, "load_all", lambda _: [made, *others])
    code = command.run([script], Options(no_cache=True, output_format="concise", exit_zero=True))
    shown = capsys.readouterr()
    assert code == 2
    assert "DDP201 hard-coded-device: KeyError" in shown.err
    assert "DDP901" in shown.out


def test_a_rule_that_cannot_be_loaded_is_an_error(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_: set[str]) -> list[Rule]:
        raise ImportError("no module of this rule")

    monkeypatch.setattr(registry, "load_all", missing)
    assert command.run([script], Options(no_cache=True)) == 2
    assert "no module of this rule" in capsys.readouterr().err


def test_what_is_nested_too_deeply_is_told(tmp_path: Path) -> None:
    path = tmp_path / "deep.py"
    path.write_text("import torch\nloss.backward()\nx = " + "[" * 900 + "]" * 900 + "\n")
    result = lint(Document(str(path), path.read_bytes()), Settings(root=tmp_path))
    assert result.failure or {"DDP000", "DDP004"} & {one.code for one in result.found}
