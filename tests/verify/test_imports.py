"""Modules that a script finds by Python's path: each run reads those of its own copy."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from ddpify.verify import Kind, Verdict, render, verify

pytestmark = pytest.mark.usefixtures("warm")

TRAIN = """
import os, torch
import torch.distributed as dist
from lib.net import make_model
several = "RANK" in os.environ
if several:
    dist.init_process_group("gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
torch.manual_seed(0)
model = make_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
for step in range(3):
    loss = model(x[rank::world]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLAIN = "import torch\ndef make_model():\n    return torch.nn.Linear(3, 1)\n"
WRAPPED = PLAIN.replace("torch.nn.Linear(3, 1)", "torch.nn.parallel.DistributedDataParallel("
                        "torch.nn.Linear(3, 1))")  # fmt: skip


def project(root: Path, net: str) -> Path:
    """A project whose script lies two folders below the modules that it imports."""
    (root / "lib").mkdir(parents=True)
    (root / "lib" / "net.py").write_text(net)
    (root / "tasks" / "one").mkdir(parents=True)
    script = root / "tasks" / "one" / "train.py"
    script.write_text(TRAIN)
    return script


def judged(original: Path, converted: Path) -> Verdict:
    # A worker of its own: it reads PYTHONPATH when it starts.
    return verify(original, converted, timeout=300)


@pytest.mark.parametrize(
    ("place", "named"), [("out", "project"), ("out", "converted"), ("project/out", "relative")]
)
def test_a_project_on_the_path(
    place: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = project(tmp_path / "project", PLAIN)
    converted = project(tmp_path / place, WRAPPED)
    monkeypatch.chdir(original.parent)
    paths = {
        "project": str(tmp_path / "project"),
        "relative": "../..",
        "converted": str(tmp_path / place),
    }
    monkeypatch.setenv("PYTHONPATH", paths[named])
    verdict = judged(original, converted)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert not verdict.notes


def test_modules_from_elsewhere_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = project(tmp_path / "project", "from shapes import SIZE\n" + PLAIN)
    converted = project(tmp_path / "out", "from shapes import SIZE\n" + WRAPPED)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "shapes.py").write_text("SIZE = 3\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'project'}:{tmp_path / 'shared'}")
    verdict = judged(original, converted)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert f"shapes ({tmp_path / 'shared'})" in verdict.notes[0]


def test_an_installed_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``pip install -e`` leaves it: a finder that maps packages to their places."""
    original = project(tmp_path / "project", PLAIN)
    converted = project(tmp_path / "out", WRAPPED)
    finder = f"""
        import importlib.util, os, sys
        MAPPING = {{"lib": {str(tmp_path / "project" / "lib")!r}}}
        class Finder:
            @classmethod
            def find_spec(cls, name, path=None, target=None):
                top, _, rest = name.partition(".")
                place = os.path.join(MAPPING.get(top, ""), *rest.split("."), "__init__.py")
                if top not in MAPPING:
                    return None
                place = place if os.path.isfile(place) else os.path.dirname(place) + ".py"
                return importlib.util.spec_from_file_location(name, place)
        sys.meta_path.append(Finder)
    """
    for root in ("project", "out"):
        (tmp_path / root / "lib" / "__init__.py").touch()
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "__editable___lib_finder.py").write_text(textwrap.dedent(finder))
    (site / "sitecustomize.py").write_text("import __editable___lib_finder\n")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PYTHONPATH", str(site))
    verdict = judged(original, converted)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
