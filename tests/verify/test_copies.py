"""What is copied for a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.verify.launch import copies
from ddpify.verify.launch.layout import lay_out


def project(folder: Path, text: str = "print()\n") -> Path:
    folder.mkdir(parents=True)
    script = folder / "train.py"
    script.write_text(text)
    return script


def test_copies_made_inside_the_copied_folder_are_left_out(tmp_path: Path) -> None:
    script = project(tmp_path / "project")
    base = tmp_path / "project" / "temporary"
    base.mkdir()
    layout = lay_out(script, script, (), cwd=tmp_path / "project")
    copy = copies.copy(layout, base / "run1")
    assert list(copy.files()) == ["train.py"]


def test_a_parent_that_holds_the_copies_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = project(tmp_path / "project", "import sys\nsys.path.append('..')\n")
    (tmp_path / "other").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert lay_out(script, script, (), cwd=script.parent).above == ()


def test_modules_and_folders_beside_the_folder(tmp_path: Path) -> None:
    script = project(tmp_path / "all" / "project", "import sys\nsys.path.append('..')\n")
    project(tmp_path / "all" / "library")
    (tmp_path / "all" / "common.py").write_text("x = 1\n")
    layout = lay_out(script, script, (), cwd=script.parent)
    assert sorted(map(str, layout.above)) == ["../common.py", "../library"]
    base = tmp_path / "base"
    base.mkdir()
    copy = copies.copy(layout, base / "run1")
    assert (copy.root.parent / "library" / "train.py").read_text() == "print()\n"


def test_beyond_the_budget_folders_are_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = project(tmp_path / "project")
    images = tmp_path / "project" / "data" / "images"
    images.mkdir(parents=True)
    for number in range(9):
        (images / f"{number}.txt").write_text("x")
    monkeypatch.setattr(copies, "MIRRORED_ENTRIES", 5)
    base = tmp_path / "base"
    base.mkdir()
    copy = copies.copy(lay_out(script, script, (), cwd=script.parent), base / "run1")
    assert (copy.root / "data" / "images").is_symlink()
    assert not (copy.root / "train.py").is_symlink()


def test_the_working_folder_is_the_one_the_person_is_in(tmp_path: Path) -> None:
    script = project(tmp_path / "root" / "examples")
    layout = lay_out(script, script, (), cwd=tmp_path / "root")
    assert (layout.root.name, str(layout.script)) == ("root", "examples/train.py")


def test_a_converted_script_elsewhere_is_placed_beside_the_original(tmp_path: Path) -> None:
    script = project(tmp_path / "project")
    converted = project(tmp_path / "out", "print('converted')\n").rename(
        tmp_path / "out" / "ddp.py"
    )
    layout = lay_out(script, converted, (), cwd=script.parent)
    base = tmp_path / "base"
    base.mkdir()
    assert not (copies.copy(layout, base / "run1").root / "ddp.py").exists()
    copy = copies.copy(layout, base / "run2", converted=True)
    assert (copy.root / "ddp.py").read_text() == "print('converted')\n"


def test_a_converted_project_elsewhere_brings_its_modules(tmp_path: Path) -> None:
    script, converted = project(tmp_path / "project"), project(tmp_path / "out", "print('ddp')\n")
    for folder, text in ((script.parent, "one"), (converted.parent, "several")):
        (folder / "lib").mkdir()
        (folder / "lib" / "net.py").write_text(text)
    (script.parent / "data.txt").write_text("data")
    base = tmp_path / "base"
    base.mkdir()
    layout = lay_out(script, converted, (), cwd=script.parent)
    own = copies.copy(layout, base / "run1").root
    other = copies.copy(layout, base / "run2", converted=True).root
    assert [(at / "lib" / "net.py").read_text() for at in (own, other)] == ["one", "several"]
    assert (other / layout.converted).read_text() == "print('ddp')\n"
    assert (other / "data.txt").read_text() == "data"


def test_a_converted_project_with_its_script_in_a_folder(tmp_path: Path) -> None:
    script = project(tmp_path / "project" / "bin")
    converted = project(tmp_path / "out" / "bin", "print('ddp')\n")
    (tmp_path / "out" / "net.py").write_text("several")
    base = tmp_path / "base"
    base.mkdir()
    layout = lay_out(script, converted, (), cwd=tmp_path / "project")
    copy = copies.copy(layout, base / "run1", converted=True)
    assert (copy.root / "bin" / "train.py").read_text() == "print('ddp')\n"
    assert (copy.root / "net.py").read_text() == "several"


def test_data_two_folders_above(tmp_path: Path) -> None:
    text = "import os\nroot = os.path.join(os.getcwd(), '../..')\nprint(root + '/data')\n"
    script = project(tmp_path / "all" / "tasks" / "one", text)
    for name in ("data", "unrelated"):
        project(tmp_path / "all" / name)
    layout = lay_out(script, script, (), cwd=script.parent)
    assert list(map(str, layout.above)) == ["../../data"]


@pytest.mark.parametrize(
    ("module", "text", "beside"),
    [
        ("train.py", "root = Path(__file__).parent.parent", True),
        ("train.py", "sys.path.append(os.path.dirname(os.path.dirname(__file__)))", True),
        ("train.py", "sys.path.append(os.path.dirname(__file__))", False),
        ("train.py", "sys.path.append('../../')", True),
        ("train.py", "data = '../data/a.txt'", False),
        ("lib/net.py", "root = Path(__file__).parent.parent", False),
        ("lib/net.py", "root = Path(__file__).resolve().parents[2]", True),
        ("lib/net.py", "up = name.startswith('..')", False),
    ],
)
def test_neighbours_are_copied_if_a_module_looks_above_the_folder(
    module: str, text: str, beside: bool, tmp_path: Path
) -> None:
    script = project(tmp_path / "all" / "project")
    place = script.parent / module
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    project(tmp_path / "all" / "library")
    above = lay_out(script, script, (), cwd=script.parent).above
    assert (Path("../library") in above) is beside
