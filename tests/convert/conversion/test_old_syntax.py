"""``async=``, an argument of calls before Python 3.7."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from ddpify.old_syntax import without_async
from tests.conftest import Ddpify
from tests.convert.examples import HEAD, STEP, convert_text

OLD = HEAD + STEP.replace("brain(a)", "brain(a.to('cpu', async=True))")


def test_it_becomes_non_blocking(tmp_path: Path) -> None:
    conversion = convert_text(tmp_path, OLD)
    assert b"brain(a.to('cpu', non_blocking=True))" in conversion.data
    assert "-    penalty = F.cross_entropy(brain(a.to('cpu', async=True)), b)" in conversion.diff(
        "x"
    )
    assert "async= is called non_blocking= since Python 3.7" in [n.text for n in conversion.notes]


def test_texts_and_comments_stay() -> None:
    text = "x.cuda(async = True)  # async=True\r\nprint('async=True')\r\n"
    wanted = text.replace("(async", "(non_blocking", 1)
    assert without_async(text) == (wanted, (1,))


def test_other_errors_are_told(tmp_path: Path) -> None:
    with pytest.raises(DdpifyError, match="syntax error") as refused:
        convert_text(tmp_path, OLD + "print 'done'\n")
    assert refused.value.line is not None


@pytest.mark.parametrize("line", ["print 'done'", "raise OSError, 'full'", "n = 5L", "n = 07"])
def test_a_tool_is_named_for_python_2(tmp_path: Path, line: str) -> None:
    with pytest.raises(DdpifyError, match="syntax error") as refused:
        convert_text(tmp_path, HEAD + STEP + line + "\n")
    assert "2to3 -w script.py" in (refused.value.remedy or "")


def test_modules_of_a_project(tmp_path: Path, ddpify: Ddpify) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "moving.py").write_text("def moved(x):\n    return x.to('cpu', async=True)\n")
    text = "from moving import moved\n" + HEAD + STEP.replace("brain(a)", "brain(moved(a))")
    (project / "train.py").write_text(text)
    refused = ddpify("convert", project / "train.py", "--diff")
    assert refused.code == 1
    assert "line 2: async= is no argument since Python 3.7" in refused.stderr
    done = ddpify("convert", project, "-o", tmp_path / "out", "--entry", "train.py")
    assert done.code == 0, done.stderr
    assert "non_blocking=True" in (tmp_path / "out" / "moving.py").read_text()
