"""The pre-commit hooks, by themselves and as pre-commit runs them, and the GitHub Action."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.lint.test_mutants import SCRIPTS

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
ACTION = (ROOT / "action.yml").read_text()
ENTRIES = dict(re.findall(r"- id: (\S+)\n(?:  .*\n)*?  entry: ddpify (.*)\n", MANIFEST.read_text()))
PRE_COMMIT = [sys.executable, "-m", "pre_commit"]
NEEDS_PRE_COMMIT = pytest.mark.skipif(
    find_spec("pre_commit") is None, reason="pre-commit is not installed"
)
GIT_HEAD = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
IN_GIT = subprocess.run(GIT_HEAD, capture_output=True, check=False).returncode == 0
SHELL = "--noprofile --norc -eo pipefail".split()  # as GitHub starts bash


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "good.py").write_text(SCRIPTS["functions"])
    bad = SCRIPTS["functions"].replace(", map_location=device", "")
    (tmp_path / "bad.py").write_text(bad)
    return tmp_path


def run(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def hook(name: str, folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-m", "ddpify", *shlex.split(ENTRIES[name]), *files], folder)


def test_the_lint_hook_fails_on_findings_alone(checkout: Path) -> None:
    done = hook("ddpify", checkout, "good.py")
    assert (done.returncode, done.stdout) == (0, "")
    done = hook("ddpify", checkout, "good.py", "bad.py")
    assert done.returncode == 1 and "DDP205" in done.stdout


def test_the_fix_hook_mends_files(checkout: Path) -> None:
    before = (checkout / "good.py").read_text()
    assert hook("ddpify-fix", checkout, "good.py", "bad.py").returncode == 0
    assert "map_location" in (checkout / "bad.py").read_text()
    assert (checkout / "good.py").read_text() == before


def test_hooks_leave_excluded_files_alone(checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text('[tool.ddpify]\nexclude = ["bad.py"]\n')
    assert hook("ddpify", checkout, "bad.py").returncode == 0


@NEEDS_PRE_COMMIT
def test_pre_commit_accepts_the_manifest(tmp_path: Path) -> None:
    done = run([*PRE_COMMIT, "validate-manifest", str(MANIFEST)], tmp_path)
    assert done.returncode == 0, done.stdout


@NEEDS_PRE_COMMIT
@pytest.mark.skipif(not IN_GIT, reason="pre-commit clones the hooks with git")
def test_pre_commit_runs_the_hooks(checkout: Path) -> None:
    """Without a network: what the hooks need is taken from where this test runs."""
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    installed = {
        "PRE_COMMIT_HOME": str(checkout / "cache"),
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }
    more = {**offline, **installed, "PIP_NO_COMPILE": "1"}
    run(["git", "init", "--quiet"], checkout)
    run(["git", "add", "good.py", "bad.py"], checkout)
    before = (checkout / "good.py").read_text()

    done = run(
        [*PRE_COMMIT, "try-repo", str(ROOT), "--all-files", "--color=never"], checkout, **more
    )
    assert done.returncode == 1, done.stderr
    linted, mended = done.stdout.split("ddpify lint --fix...")
    assert "Failed" in linted and "DDP205" in linted and "files were modified" not in linted
    assert "files were modified by this hook" in mended
    assert "map_location" in (checkout / "bad.py").read_text()
    assert (checkout / "good.py").read_text() == before


def test_the_action_lints_in_a_shell(checkout: Path) -> None:
    step = re.search(r"run: (ddpify lint .*)\n", ACTION)
    assert step is not None
    command = checkout / "bin" / "ddpify"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ddpify "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    more = {"PATH": path, "DDPIFY_PATHS": "good.py bad.py", "DDPIFY_ARGS": "--select DDP205"}
    done = run(["bash", *SHELL, "-c", step[1]], checkout, **more)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::") and "bad.py" in done.stdout


def test_the_action_names_its_inputs_and_steps() -> None:
    inputs = set(re.findall(r"^  ([\w-]+):\n    description", ACTION, re.M))
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION))
    assert used == inputs == {"paths", "args", "python-version"}
    runs = ACTION[ACTION.index("runs:") :]
    assert runs.count("run:") == runs.count("shell: bash")
