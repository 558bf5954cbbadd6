"""The vendored runtime helper: one file that needs torch alone, and does what the package does."""

from __future__ import annotations

import ast
import builtins
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ddpify import runtime
from ddpify.vendor import VENDORED_NAME, bundle
from tests.conftest import FIXTURES, Ddpify
from tests.training_runs import TrainingRuns, assert_same_training

RUNTIME = sorted(Path(runtime.__file__).parent.glob("*.py"))
NO_DDPIFY = 'import sys; sys.modules["ddpify"] = None\n'
"""Lets every import of ddpify fail, where it is installed too."""


def vendored(ddpify: Ddpify, name: str, folder: Path) -> Path:
    """A fixture's script, converted to stand beside its own helper, without access to ddpify."""
    script = folder / "train_ddp.py"
    done = ddpify("convert", FIXTURES / name / "train.py", "-o", script, "--vendor")
    assert done.code == 0, done.stderr
    script.write_text(NO_DDPIFY + script.read_text())
    return script


def test_the_helper_is_written_beside_the_output(ddpify: Ddpify, tmp_path: Path) -> None:
    script = vendored(ddpify, "functions", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [VENDORED_NAME, script.name]
    assert (tmp_path / VENDORED_NAME).read_text() == bundle()
    assert "\nimport ddpify_runtime as dd\n" in script.read_text()
    assert "from ddpify" not in script.read_text()


def test_a_refused_script_leaves_no_helper(ddpify: Ddpify, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    assert ddpify("convert", tmp_path / "train.py", "-o", tmp_path / "o.py", "--vendor").code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_another_file_of_the_helper_s_name_is_kept(ddpify: Ddpify, tmp_path: Path) -> None:
    (tmp_path / VENDORED_NAME).write_text("mine = 1\n")
    convert = ("convert", FIXTURES / "functions" / "train.py", "-o", tmp_path / "out.py")
    done = ddpify(*convert, "--vendor")
    assert done.code == 2
    assert "--overwrite" in done.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine = 1\n"]
    assert ddpify(*convert, "--vendor", "--overwrite").code == 0
    assert ddpify("convert", convert[1], "-o", tmp_path / "two.py", "--vendor").code == 0


def test_the_helper_needs_torch_alone_and_has_the_package_s_names(tmp_path: Path) -> None:
    (tmp_path / VENDORED_NAME).write_text(bundle())
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{NO_DDPIFY}"
        "sys.modules.update(dict.fromkeys(['libcst', 'typer', 'black', 'numpy']))\n"
        "import json, ddpify_runtime as dd\n"
        "ours = [n for n in dd.__all__ if getattr(dd, n).__module__ != 'ddpify_runtime']\n"
        "print(json.dumps([dd.__all__, dd.world_size(), ours]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [runtime.__all__, 1, []]


def test_the_helper_is_no_script_of_the_user(ddpify: Ddpify, tmp_path: Path) -> None:
    script = vendored(ddpify, "functions", tmp_path)
    helper = tmp_path / VENDORED_NAME
    (tmp_path / "also.py").write_text(script.read_text())
    assert ddpify("lint", tmp_path).stdout == "All checks passed.\n"
    refused = ddpify("convert", helper, "-o", tmp_path / "out.py")
    assert refused.code == 1
    assert "ddpify's runtime helper" in refused.stderr
    asked = ddpify("convert", tmp_path, "-o", tmp_path.with_suffix(".out"))
    assert VENDORED_NAME not in asked.stderr


@pytest.mark.parametrize("name", ["batchnorm_cnn", "trainer_class"])
def test_vendored_script_trains_the_same(
    name: str, ddpify: Ddpify, runs: TrainingRuns, tmp_path: Path
) -> None:
    script = vendored(ddpify, name, tmp_path)
    original = runs.run(FIXTURES / name / "train.py")
    assert_same_training(original, runs.run(script, 2))


def module_names(tree: ast.Module) -> list[str]:
    """The names that a module's own statements bind, imports apart."""
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append(node.target.id)
    return found


def test_no_two_modules_bind_one_name() -> None:
    trees = [ast.parse(path.read_text()) for path in RUNTIME if path.name != "__init__.py"]
    counts = Counter(name for tree in trees for name in set(module_names(tree)))
    assert [name for name, count in counts.items() if count > 1] == []


def test_no_module_means_the_builtin_by_a_helper_s_name() -> None:
    """In the bundle, ``sum`` is the ranks' everywhere: Python's own must not be called by it."""
    tree = ast.parse(bundle())
    shadowed = {name for name in module_names(tree) if hasattr(builtins, name)}
    assert "sum" in shadowed
    loads = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    assert [f"{n.id} in line {n.lineno}" for n in loads if n.id in shadowed] == []


def test_the_bundle_is_stable_and_formatted() -> None:
    text = bundle()
    assert text == bundle()
    assert text.endswith("]\n")
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=100", "-"]
    done = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True)
    assert done.stdout == text
    assert "ddpify.runtime" not in "".join(
        line for line in text.splitlines() if line.startswith(("import", "from"))
    )
