"""A folder that the repository holds is there before the first rank asks for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

HEAD = "\nimport os\nimport argparse\nfrom pathlib import Path\n"
HELD = {
    "by its name": 'if not os.path.exists("out"):\n    os.makedirs("out")\n',
    "from here": 'if not os.path.isdir("./out/"):\n    os.mkdir("./out/")\n',
    "of a constant": 'OUT = "out"\nif not os.path.exists(OUT):\n    os.makedirs(OUT)\n',
    "put together": (
        'logs = os.path.join("out", "logs")\nif not os.path.exists(logs):\n    os.makedirs(logs)\n'
    ),
    "of an object": (
        "class Paths:\n    pass\n\npaths = Paths()\npaths.base = 'out'\n"
        "paths.logs = os.path.join(paths.base, 'logs')\n"
        "if not os.path.exists(paths.logs):\n    os.makedirs(paths.logs)\n"
    ),
    "of an object, bit by bit": (
        "class Paths:\n    pass\n\ndef fill(paths):\n    paths.base, paths.name = '.', 'out'\n"
        "    paths.top = os.path.join(paths.base, paths.name)\n"
        "    paths.logs = os.path.join(paths.top, 'logs')\n    return paths\n\n"
        "paths = fill(Paths())\nif not os.path.exists(paths.logs):\n    os.makedirs(paths.logs)\n"
    ),
    "as a path": 'logs = Path("out")\nif not logs.exists():\n    logs.mkdir()\n',
}
MADE = {
    "another one": 'if not os.path.exists("runs"):\n    os.makedirs("runs")\n',
    "one below it": 'if not os.path.exists("out/fresh"):\n    os.makedirs("out/fresh")\n',
    "the end of its name": 'if not os.path.exists("ut"):\n    os.makedirs("ut")\n',
    "a file": (
        'path = "out/logs/first.txt"\nif not os.path.exists(path):\n    os.makedirs(path)\n'
    ),
    "from the root": 'if not os.path.exists("/out"):\n    os.makedirs("/out")\n',
    "of an option": (
        'parser = argparse.ArgumentParser()\nparser.add_argument("--out", default="out")\n'
        "args = parser.parse_args()\nif not os.path.exists(args.out):\n    os.makedirs(args.out)\n"
    ),
    "what git does not know": 'if not os.path.exists("left"):\n    os.makedirs("left")\n',
    "not asked for": 'os.makedirs("out")\n',
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("out/logs/first.txt", "left/over.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "out"], cwd=tmp_path, check=True)
    return tmp_path


def _found(lint_text: Lint, text: str) -> bool:
    return bool(lint_text(SETUPS["distributed"] + HEAD + text, select=("DDP506",)))


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("name", HELD)
def test_a_checkout_has_the_folder(name: str, lint_text: Lint) -> None:
    assert not _found(lint_text, HELD[name])


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("name", MADE)
def test_a_checkout_has_no_such_folder(name: str, lint_text: Lint) -> None:
    assert _found(lint_text, MADE[name])


@pytest.mark.parametrize("name", HELD)
def test_a_folder_without_a_repository_is_made(name: str, lint_text: Lint) -> None:
    assert _found(lint_text, HELD[name])
