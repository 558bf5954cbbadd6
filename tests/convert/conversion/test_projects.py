"""Whole projects: which files change, which come along, what is left behind, and refusals."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import libcst as cst
import pytest

from ddpify.source import read_source, source_from_bytes
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.project import Project
from tests.conftest import Ddpify

TRAIN = """\
import torch
from torch import nn

import engine
from data import make_loader
from models import Net

net = Net(3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    print(epoch, engine.run_epoch(net, make_loader(6), optimizer, nn.CrossEntropyLoss()))
"""
ENGINE = """\
def run_epoch(net, batches, optimizer, criterion):
    total = 0.0
    for a, b in batches:
        optimizer.zero_grad()
        loss = criterion(net(a), b)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""
DATA = """\
# -*- coding: latin-1 -*-
import torch
from torch.utils.data import DataLoader, TensorDataset

NAME = "caf\xe9"


def make_loader(batch_size):
    features = torch.arange(80.0).reshape(20, 4)
    return DataLoader(TensorDataset(features, torch.arange(20) % 3), batch_size=batch_size)
"""
NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.layer = nn.Linear(4, classes)

    def forward(self, a):
        return self.layer(a)
"""
ALONE = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from .net import Net

feed = DataLoader(TensorDataset(torch.randn(20, 4), torch.arange(20) % 3), batch_size=6)
brain = Net(3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    rule.zero_grad()
    F.cross_entropy(brain(a), b).backward()
    rule.step()
"""
FILES = {
    "train.py": TRAIN.encode(),
    "engine.py": ENGINE.replace("\n", "\r\n").encode(),
    "data.py": DATA.encode("latin-1"),
    "models/__init__.py": b"from .net import Net\n",
    "models/net.py": NET.encode(),
    "tools/plot.py": b"import matplotlib\n",
    "README.md": b"# A project\n",
    "run.sh": b"#!/bin/sh\npython train.py\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project in the folder ``project`` of the working folder."""
    monkeypatch.chdir(tmp_path)
    for name, data in FILES.items():
        path = Path("project", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Path("project")


def contents(folder: Path) -> dict[str, bytes]:
    paths = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}


def git(*arguments: str, at: Path) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=at, check=True, capture_output=True)


def committed(folder: Path) -> None:
    for command in (["init"], ["add", "-A"], ["commit", "-m", "all"]):
        git(*command, at=folder)


def test_files_that_take_part_are_changed_and_others_are_not(ddpify: Ddpify, project: Path) -> None:
    done = ddpify("convert", "project", "-o", "out", "--entry", "train.py")
    assert done.code == 0, done.stderr
    after = contents(Path("out"))
    assert {name for name in FILES if after[name] != FILES[name]} == {
        "train.py",
        "engine.py",
        "data.py",
    }
    assert set(after) == set(FILES)
    assert b"    return dd.shard(DataLoader(" in after["data.py"]
    assert after["train.py"].count(b"dd.init()") == 1
    assert b"net = dd.wrap(Net(3))" in after["train.py"]


def test_a_module_of_data_is_as_a_library(ddpify: Ddpify, project: Path) -> None:
    Path(project, "words.py").write_text("WORDS = [" + "'a word',\n" * 60_000 + "]\n")
    Path(project, "data.py").write_bytes(b"# coding: latin-1\nimport words\n" + FILES["data.py"])
    read = Project(read_source("project/train.py"))
    interpret(read)
    names = {file.name for file in read.files}
    assert "data" in names
    assert "words" not in names
    done = ddpify("convert", "project", "-o", "out", "--entry", "train.py")
    assert done.code == 0, done.stderr
    assert b"dd.shard(DataLoader(" in Path("out/data.py").read_bytes()


def test_encodings_and_line_endings_stay(ddpify: Ddpify, project: Path) -> None:
    ddpify("convert", "project", "-o", "out", "--entry", "train.py")
    assert b'NAME = "caf\xe9"' in Path("out/data.py").read_bytes()
    engine = Path("out/engine.py").read_bytes()
    assert engine.count(b"\r\n") == engine.count(b"\n") > ENGINE.count("\n")
    assert b"dd.mean(criterion(net(a), b))" in engine


def test_each_change_is_named_with_its_file(ddpify: Ddpify, project: Path) -> None:
    done = ddpify("convert", "project", "-o", "out", "--entry", "train.py")
    lines = done.stderr.splitlines()
    assert lines[0] == "project: 3 changes in 3 files, written to out"
    assert "  project/train.py:8: DDP305 model wrapped in DistributedDataParallel" in lines
    assert any(line.startswith("  project/engine.py:5: DDP413 ") for line in lines)
    assert any(line.startswith("  project/data.py:10: DDP101 ") for line in lines)
    assert lines[-1] == "run it: torchrun --nproc_per_node=N out/train.py"


def test_permissions_and_links_are_kept(ddpify: Ddpify, project: Path) -> None:
    (project / "run.sh").chmod(0o750)
    (project / "train.py").chmod(0o555)
    (project / "latest.sh").symlink_to("run.sh")
    (project / "tools" / "shared").symlink_to("../models", target_is_directory=True)
    assert ddpify("convert", "project", "-o", "out", "--entry", "train.py").code == 0
    assert stat.S_IMODE(Path("out/run.sh").stat().st_mode) == 0o750
    assert stat.S_IMODE(Path("out/train.py").stat().st_mode) == 0o555
    assert os.readlink("out/latest.sh") == "run.sh"
    assert os.readlink("out/tools/shared") == "../models"


def test_data_is_left_behind_unless_asked_for(ddpify: Ddpify, project: Path) -> None:
    (project / "weights.pt").write_bytes(b"w" * 1_200_000)
    (project / "images").mkdir()
    for number in range(1001):
        (project / "images" / f"{number}.png").touch()
    for name in (".git/config", "__pycache__/train.pyc", "env/pyvenv.cfg", "env/lib/x.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    done = ddpify("convert", "project", "-o", "out", "--entry", "train.py")
    assert set(contents(Path("out"))) == set(FILES)
    assert "  weights.pt: 1.2 MB" in done.stderr
    assert "  images: 1001 files" in done.stderr
    assert "--copy-all" in done.stderr
    done = ddpify("convert", "project", "-o", "all", "--entry", "train.py", "--copy-all")
    assert len(contents(Path("all"))) == len(FILES) + 1002
    assert "not copied" not in done.stderr


def test_an_output_inside_the_project_does_not_hold_itself(ddpify: Ddpify, project: Path) -> None:
    for _ in range(2):
        options = ["-o", "project/out", "--entry", "train.py", "--overwrite"]
        assert ddpify("convert", "project", *options).code == 0
    assert set(contents(Path("project/out"))) == set(FILES)


def test_a_refusal_leaves_nothing_behind(ddpify: Ddpify, project: Path) -> None:
    (project / "engine.py").write_text(ENGINE.replace("loss.backward()", "pass"))
    done = ddpify("convert", "project", "-o", "out", "--entry", "train.py")
    assert done.code == 1
    assert sorted(p.name for p in Path().iterdir()) == ["project"]


def test_a_refusal_names_the_module_and_the_line(ddpify: Ddpify, project: Path) -> None:
    one_by_one = ENGINE.replace("criterion(net(a), b)", "max(row.max() for row in net(a))")
    (project / "engine.py").write_text(one_by_one)
    done = ddpify("convert", "project", "-o", "out", "--entry", "train.py")
    assert done.code == 1
    assert done.stderr.startswith("ddpify: project/engine.py:6: ")


USAGE = {
    "no entry": ([], "--entry"),
    "an entry that is not there": (["--entry", "trian.py"], "relative to the folder"),
    "an entry outside": (["--entry", "../other.py"], "relative to the folder"),
    "no output": (["--entry", "train.py", "-o", "-"], "-o FOLDER"),
    "onto itself": (["--entry", "train.py", "-o", "project"], "--in-place"),
    "onto files": (["--entry", "train.py", "-o", "full"], "--overwrite"),
    "in place without git": (["--entry", "train.py", "--in-place"], "git init"),
}


@pytest.mark.parametrize("name", USAGE)
def test_wrong_usage_is_2_with_a_remedy(ddpify: Ddpify, project: Path, name: str) -> None:
    Path("full").mkdir()
    Path("full", "a.txt").touch()
    Path("other.py").write_text(TRAIN)
    before = contents(Path())
    arguments, remedy = USAGE[name]
    if "-o" not in arguments and "--in-place" not in arguments:
        arguments = [*arguments, "-o", "out"]
    done = ddpify("convert", "project", *arguments)
    assert done.code == 2
    assert remedy in done.stderr
    assert contents(Path()) == before


def test_without_an_entry_scripts_are_proposed(ddpify: Ddpify, project: Path) -> None:
    (project / "main.py").write_text(TRAIN + "if __name__ == '__main__':\n    pass\n")
    assert "(one of main.py)" in ddpify("convert", "project", "-o", "out").stderr


def test_in_place_changes_a_clean_checkout(ddpify: Ddpify, project: Path) -> None:
    committed(project)
    assert ddpify("convert", "project", "--in-place", "--entry", "train.py").code == 0
    ddpify("convert", "project", "--diff", "--entry", "train.py")
    changed = subprocess.run(
        ["git", "diff", "--name-only"], cwd=project, capture_output=True, text=True, check=True
    )
    assert changed.stdout.split() == ["data.py", "engine.py", "train.py"]


def test_in_place_runs_no_program_that_the_repository_names(ddpify: Ddpify, project: Path) -> None:
    spy = Path("spy.sh").absolute()
    spy.write_text(f"#!/bin/sh\ntouch {spy}.ran\ncat\n")
    spy.chmod(0o755)
    (project / ".gitattributes").write_text("*.py filter=odd\n")
    committed(project)
    hook = project / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(spy.read_text())
    hook.chmod(0o755)
    for key in ("filter.odd.clean", "filter.odd.smudge", "filter.odd.process", "core.fsmonitor"):
        git("config", key, str(spy), at=project)
    git("config", "filter.odd.required", "true", at=project)
    os.utime(project / "train.py", (1, 1))  # git has to read it again
    assert ddpify("convert", "project", "--in-place", "--entry", "train.py").code == 0
    assert not Path(f"{spy}.ran").exists()


@pytest.mark.parametrize("name", ["README.md", "new.py"])
def test_in_place_refuses_what_is_not_committed(ddpify: Ddpify, project: Path, name: str) -> None:
    committed(project)
    (project / name).write_text("changed\n")
    before = contents(project)
    done = ddpify("convert", "project", "--in-place", "--entry", "train.py")
    assert done.code == 2
    assert name in done.stderr
    assert "commit or stash" in done.stderr
    assert contents(project) == before


def test_converting_again_changes_nothing(ddpify: Ddpify, project: Path) -> None:
    ddpify("convert", "project", "-o", "out", "--entry", "train.py")
    before = contents(Path("out"))
    done = ddpify("convert", "out", "-o", "again", "--entry", "train.py")
    assert done.code == 1
    assert "already converted" in done.stderr
    assert contents(Path("out")) == before
    assert not Path("again").exists()


def test_a_single_script_names_the_module_that_would_have_to_change(
    ddpify: Ddpify, project: Path
) -> None:
    done = ddpify("convert", "project/train.py", "-o", "train_ddp.py")
    assert done.code == 1
    remedy = done.stderr.splitlines()[1]
    assert "ddpify convert project -o OUT --entry train.py" in remedy
    assert "project/engine.py:5: " in remedy
    assert not Path("train_ddp.py").exists()


def test_several_entries_share_their_modules(ddpify: Ddpify, project: Path) -> None:
    (project / "finetune.py").write_text(TRAIN.replace("range(2)", "range(1)"))
    entries = ["--entry", "train.py", "--entry", "finetune.py"]
    done = ddpify("convert", "project", "-o", "out", *entries)
    assert done.code == 0, done.stderr
    for name in ("train.py", "finetune.py"):
        assert Path("out", name).read_text().count("dd.init()") == 1
    assert Path("out/engine.py").read_text().count("dd.mean(") == 1
    assert done.stderr.count("run it: ") == 2


def test_a_package_is_run_as_a_module(ddpify: Ddpify, project: Path) -> None:
    package = project / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (project / "data.py").rename(package / "data.py")
    (project / "engine.py").rename(package / "engine.py")
    text = TRAIN.replace("import engine", "from . import engine").replace("from data", "from .data")
    (project / "train.py").unlink()
    (package / "train.py").write_text(text.replace("from models", "from pkg.net"))
    (project / "models" / "net.py").rename(package / "net.py")
    done = ddpify("convert", "project", "-o", "out", "--entry", "src/pkg/train.py", "--vendor")
    assert done.code == 0, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "run it: cd out/src && torchrun --nproc_per_node=N -m pkg.train"
    )
    assert "import ddpify_runtime as dd" in (Path("out/src/pkg/engine.py")).read_text()
    assert Path("out/src/ddpify_runtime.py").is_file()


def test_a_folder_that_is_part_of_the_package_is_not_enough(ddpify: Ddpify, project: Path) -> None:
    text = TRAIN.replace("import engine", "from .. import engine")
    (project / "jobs").mkdir()
    (project / "jobs" / "train.py").write_text(text)
    refused = ddpify("convert", "project", "-o", "out", "--entry", "jobs/train.py")
    assert refused.code == 2
    line = text[: text.index("from ..")].count("\n") + 1
    assert refused.stderr.splitlines() == [
        f"ddpify: project/jobs/train.py:{line}: it imports from a package of which the folder is"
        " only a part, and so is run from above it (python -m project.jobs.train)",
        "  remedy: convert the folder above: ddpify convert . -o OUT --entry project/jobs/train.py",
    ]
    above = ddpify("convert", ".", "-o", "../above", "--entry", "project/jobs/train.py")
    assert above.stderr.splitlines()[-1] == (
        "run it: cd ../above && torchrun --nproc_per_node=N -m project.jobs.train"
    )


def test_a_script_beside_its_package_is_run_as_a_module(ddpify: Ddpify, project: Path) -> None:
    (project / "engine.py").unlink()
    (project / "net.py").write_text(NET)
    (project / "train.py").write_text(ALONE)
    done = ddpify("convert", "project/train.py", "-o", "project/train_ddp.py")
    last = "run it: cd . && torchrun --nproc_per_node=N -m project.train_ddp"
    assert (done.code, done.stderr.splitlines()[-1]) == (0, last)


def test_modules_are_found_where_the_script_puts_them_on_its_path(
    ddpify: Ddpify, project: Path
) -> None:
    (project / "library" / "core").mkdir(parents=True)
    (project / "engine.py").rename(project / "library" / "core" / "engine.py")
    text = f"import sys\nsys.path.append('library/core')\n{TRAIN}"
    (project / "train.py").write_text(text)
    assert ddpify("convert", "project", "-o", "out", "--entry", "train.py").code == 0
    assert b"dd.mean(" in Path("out/library/core/engine.py").read_bytes()


def test_entry_is_for_folders(ddpify: Ddpify, project: Path) -> None:
    done = ddpify("convert", "project/train.py", "-o", "out.py", "--entry", "train.py")
    assert done.code == 2
    assert "--entry is for folders" in done.stderr


def test_a_folder_that_does_not_exist(ddpify: Ddpify, project: Path) -> None:
    done = ddpify("convert", "projcet", "-o", "out", "--entry", "train.py")
    assert done.code == 2
    assert "projcet: no such file or folder" in done.stderr
    assert not Path("out").exists()


def test_the_group_starts_before_a_module_that_uses_it_is_imported(
    ddpify: Ddpify, project: Path
) -> None:
    """A device that a module chooses as it is imported is the rank's own."""
    (project / "common.py").write_text("import torch\n\ndevice = torch.device('cuda:0')\n")
    script = project / "train.py"
    script.write_text(TRAIN.replace("import engine\n", "import common\nimport engine\n"))
    output = project.parent / "converted"
    assert ddpify("convert", str(project), "--entry", "train.py", "-o", str(output)).code == 0
    lines = (output / "train.py").read_text().splitlines()
    assert lines.index("dd.init()") < lines.index("import common")
    assert "device = dd.device()" in (output / "common.py").read_text()


def test_nodes_come_in_the_order_of_the_text() -> None:
    """What is decided about a set of them must not depend on where objects lie in memory."""
    names = [f"name_{number}" for number in range(50)]
    project = Project(source_from_bytes("\n".join(names).encode(), "train.py"))
    nodes = {node for node in project.entry.parents if isinstance(node, cst.Name)}
    assert [node.value for node in project.in_order(nodes)] == names


@pytest.mark.parametrize(
    "added",
    [
        "sys.path.append('core')",
        "sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../core'))",
        "ROOT = Path(__file__).resolve().parents[1]\nsys.path.insert(0, str(ROOT / 'core'))",
        "sys.path.append(str(Path(__file__).parent.parent.joinpath('core')))",
        "def add(path):\n    sys.path.insert(0, path)\nadd(os.path.dirname(__file__) + '/../core')",
    ],
)
def test_constant_folders_of_the_search_path_hold_for_all_modules(
    tmp_path: Path, added: str
) -> None:
    for folder in ("tools", "core", "other/core"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "net.py").write_text("import head\n")
        (tmp_path / folder / "head.py").write_text("width = 3\n")
    (tmp_path / "tools" / "net.py").unlink()
    (tmp_path / "tools" / "head.py").unlink()
    (tmp_path / "tools" / "train.py").write_text(f"import sys\n{added}\nimport net\n")
    project = Project(read_source(tmp_path / "tools" / "train.py"), folder=tmp_path)
    net = project.resolve("net", project.entry)
    assert net is not None and net.path == tmp_path / "core" / "net.py"
    head = project.resolve("head", net)
    assert head is not None and head.path == tmp_path / "core" / "head.py"
