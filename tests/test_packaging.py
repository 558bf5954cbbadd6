"""What is installed, what it needs, and what starting the command costs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ddpify
from ddpify.errors import DdpifyError
from tests.conftest import Ddpify

tomllib = pytest.importorskip("tomllib", reason="tomllib is part of Python 3.11 and later")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


COMMANDS = (
    "ConvertToTorchrun",
    "ReduceValues",
    "ShardLoaders",
    "UseRankDevice",
    "WrapModels",
    "WriteOnRankZero",
)


def python(*args: str, cwd: Path = ROOT, **variables: str) -> str:
    command, env = [sys.executable, *args], {**os.environ, **variables}
    done = subprocess.run(command, cwd=cwd, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_package_is_listed() -> None:
    setuptools = PROJECT["tool"]["setuptools"]
    packages = set()
    for top, parent in (("ddpify", ROOT), ("codemods", ROOT)):
        for file in (ROOT / top).rglob("__init__.py"):
            name = ".".join(file.parent.relative_to(parent).parts)
            packages.add(name if top == "ddpify" else f"ddpify.{name}")
    assert set(setuptools["packages"]) == packages
    assert setuptools["package-dir"] == {"ddpify.codemods": "codemods"}


def test_torch_is_an_extra() -> None:
    project = PROJECT["project"]
    names = {re.split(r"[<>=\[ ]", spec)[0] for spec in project["dependencies"]}
    assert names == {"libcst", "typer", "rich", "black", "tomli"}  # tomli before Python 3.11 only
    assert project["optional-dependencies"]["torch"] == ["torch>=2.6"]


def test_constraints_name_what_the_extras_install() -> None:
    lines = (ROOT / "constraints-dev.txt").read_text().splitlines()
    pinned = {line.partition("==")[0] for line in lines if not line.startswith("#")}
    extras = PROJECT["project"]["optional-dependencies"]
    specs = [*PROJECT["project"]["dependencies"], *extras["torch"], *extras["dev"]]
    assert pinned == {re.split(r"[<>=]", spec)[0] for spec in specs} - {"setuptools"}


def test_version_is_in_the_changelog() -> None:
    assert f"## [{ddpify.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_checkout_finds_the_codemods() -> None:
    where = python("-c", "import ddpify.codemods as c; print(c.__file__)").strip()
    assert Path(where) == ROOT / "codemods" / "__init__.py"


def test_libcst_lists_the_codemods() -> None:
    listed = python("-m", "libcst.tool", "list")
    names = re.findall(r"^commands\.(\w+) - [A-Z].*\.$", listed, re.M)
    assert tuple(name for name in names if name != "Command") == COMMANDS


def run_codemod(command: str, script: Path) -> None:
    """Run a codemod on a script in place, far from any configuration of LibCST."""
    tool = ("-m", "libcst.tool", "codemod", "--no-format", "-x")
    name = f"ddpify.codemods.commands.{command}"
    python(*tool, name, str(script), cwd=script.parent, PYTHONPATH=str(ROOT))


@pytest.mark.parametrize("name", ["functions", "hardcoded_cuda"])
def test_libcst_converts_as_the_command_does(name: str, ddpify: Ddpify, tmp_path: Path) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    shutil.copy(ROOT / "fixtures" / name / "train.py", script)
    assert ddpify("convert", script, "-o", converted).code == 0
    run_codemod("ConvertToTorchrun", script)
    assert script.read_bytes() == converted.read_bytes()


def test_libcst_runs_one_kind_of_change_alone(tmp_path: Path) -> None:
    original = (ROOT / "fixtures" / "functions" / "train.py").read_text()
    script = tmp_path / "train.py"
    script.write_text(original)
    run_codemod("WrapModels", script)
    added = set(script.read_text().splitlines()) - set(original.splitlines())
    assert added == {
        "from ddpify import runtime as dd",
        "    dd.init()",
        "    model = dd.wrap(Net(args.hidden, p=0.1).to(device))",
    }


def test_libcst_leaves_a_refused_script_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('hello')\n")
    run_codemod("ConvertToTorchrun", script)
    assert script.read_text() == "print('hello')\n"


def test_commands_start_without_torch() -> None:
    code = (
        "import sys; from ddpify.cli import main\n"
        "for words in sys.argv[1:]:\n"
        "    main(words.split())\n"
        "    assert 'torch' not in sys.modules, words\n"
    )
    helps = ("--help", "--version", "convert --help", "verify --help", "lint --help")
    python("-c", code, *helps, "convert missing.py --diff")


def test_converting_does_not_import_torch() -> None:
    code = (
        "import sys; from ddpify.cli import main; code = main(sys.argv[1:]);"
        "sys.exit('torch was imported' if 'torch' in sys.modules else code)"
    )
    python("-c", code, "convert", "fixtures/functions/train.py", "--diff")


def test_importing_verify_does_not_import_torch() -> None:
    python("-c", "import ddpify.verify, sys; sys.exit('torch' in sys.modules)")


def test_module_and_command_have_one_version() -> None:
    assert python("-m", "ddpify", "--version").split() == ["ddpify", ddpify.__version__]


def test_error_shows_place_and_remedy() -> None:
    error = DdpifyError("no training loop", path="train.py", line=3, column=5, remedy="add one")
    assert str(error) == "train.py:3:5: no training loop\n  remedy: add one"
    assert str(DdpifyError("no training loop", path="train.py", line=3)).startswith("train.py:3: ")
    assert str(DdpifyError("no script", column=4)) == "no script"
    assert (error.exit_code, DdpifyError("", exit_code=2).exit_code) == (1, 2)


def test_no_package_index_is_named() -> None:
    names = ["pyproject.toml", "Makefile", "constraints-dev.txt", ".ci/run"]
    text = "".join((ROOT / name).read_text() for name in names)
    assert not re.search(r"--(extra-)?index-url|--find-links|https?://", text)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "ddpify", "codemods"):
        if (ROOT / name).exists():
            (source / name).symlink_to(ROOT / name)
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "."]
    python(*build, str(source), cwd=folder)
    (built,) = folder.glob("ddpify-*.whl")
    return built


def test_wheel_has_one_top_level_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"ddpify", f"ddpify-{ddpify.__version__}.dist-info"}
    assert {"ddpify/codemods/__init__.py", "ddpify/py.typed"} <= set(names)


@pytest.mark.parametrize("from_checkout", [False, True])
def test_wheel_works_outside_and_inside_the_checkout(
    wheel: Path, tmp_path: Path, from_checkout: bool
) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    code = (
        f"import sys; sys.path.insert({1 if from_checkout else 0}, {str(site)!r});"
        "import ddpify.codemods, ddpify.cli; print(ddpify.codemods.__file__)"
    )
    where = Path(python("-c", code, cwd=ROOT if from_checkout else tmp_path).strip())
    assert where.is_relative_to(ROOT if from_checkout else site)


def test_console_script_is_declared() -> None:
    assert PROJECT["project"]["scripts"] == {"ddpify": "ddpify.start:main"}
