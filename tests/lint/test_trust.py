"""What must never happen: a crash, or a finding in what convert itself wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from tests.conftest import FIXTURES, Ddpify


@pytest.mark.parametrize("options", [("--strategy", "fsdp", "--resume"), ("--vendor",)])
@pytest.mark.parametrize("name", ["batchnorm_cnn", "early_stopping", "functions", "two_loaders"])
def test_converted_scripts_are_clean(
    name: str, options: tuple[str, ...], ddpify: Ddpify, tmp_path: Path
) -> None:
    """With these options; those without, and those with snapshots, are in test_fixtures."""
    out = tmp_path / "train_ddp.py"
    assert ddpify("convert", FIXTURES / name / "train.py", "-o", out, *options).code == 0
    done = ddpify("lint", out, "--no-cache", "--output-format", "concise")
    assert done.code == 0, done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n",
        "import torch\nfrom torch import *\nimport torch as torch\n",
        "import torch\nclass A(A): pass\n",
        "import torch\ndef f(): return f()\nf()\n",
        "import torch\nx = [y for y in (lambda: x)()]\n",
        "import torch\nwith open(x) as (a, b): pass\nfor a.b in c[0]: del a\n",
        "import torch\nmatch torch:\n    case [a, *b] if a: pass\n    case {'x': 1, **r}: pass\n",
        "import torch\nasync def f():\n    async for x in y: await x\n    yield\n",
        "import torch\ntry: pass\nexcept* ValueError as e: raise\n",
        "import torch\ntype X = int\n",
        "import torch\nfor a in torch.backward():\n    for b in a:\n        c = b\n    else:\n"
        "        continue\n    break\n",
        "import torch\nx = " + "(" * 60 + "1" + ")" * 60 + "\n",
        "import torch\nx = " + "+".join("1" * 3000) + "\n",
    ],
)
def test_odd_files_do_not_crash(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text(text)
    result = lint(Document(str(path), path.read_bytes()), Settings(root=tmp_path))
    assert result.failure is None or "nested too deeply" in result.failure


def test_a_file_with_two_encodings_is_a_finding(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf# -*- coding: latin-1 -*-\nimport torch\nprint torch\n"
    result = lint(Document("train.py", data), Settings(root=tmp_path))
    assert [one.code for one in result.found] == ["DDP000"]
