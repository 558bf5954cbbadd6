"""Reading a script: unreadable input gives one clear message, a readable one round-trips."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ddpify.errors import DdpifyError, ExitCode
from ddpify.source import Source, read_source, source_from_bytes, write_atomically


def failure(data: bytes) -> DdpifyError:
    with pytest.raises(DdpifyError) as caught:
        _ = source_from_bytes(data, "train.py").module
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.path == "train.py"
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"x = 1\n", "utf-8"),
        (b"x = 1", "utf-8"),
        (b"x = 1\r\ny = 2\r\n", "utf-8"),
        (b"x = 1\r\ny = 2\n", "utf-8"),
        (b"\xef\xbb\xbfx = 1\n", "utf-8-sig"),
        ("x = 'naïve €'\n".encode(), "utf-8"),
        (b"#!/usr/bin/env python\n# -*- coding: latin-1 -*-\nx = '\xe9'\n", "iso8859-1"),
        (b"# vim: set fileencoding=cp1252 :\nx = '\x80'\n", "cp1252"),
        (b"if x:\n\ty = (  1,\n)  # c\n\n\n", "utf-8"),
    ],
)
def test_bytes_survive(data: bytes, encoding: str) -> None:
    source = source_from_bytes(data, "train.py")
    assert source.encoding == encoding
    assert source.module.bytes == data
    assert source.text.encode(encoding) == data


def test_coding_after_code_is_not_a_coding_line() -> None:
    assert source_from_bytes(b"x = 1\n# coding: latin-1\n", "train.py").encoding == "utf-8"


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"", None, "empty"),
        (b" \n\n", None, "empty"),
        (b"import os\n\x00\x01", 2, "NUL"),
        ("import os\n".encode("utf-16"), 1, "UTF-16"),
        (b"import os\n\nx = 'caf\xe9'\n", 3, "byte 0xe9"),
        (b"# coding: klingon\nx = 1\n", 1, "unknown encoding 'klingon'"),
        (b"# coding: ascii\nx = 1\ny = '\xc3\xa9'\n", 3, "which line 1 says"),
        (b"# coding: hex\nx = 1\n", 1, "not an encoding of text"),
        (b"x = 1\rdef f(): pass\r", None, "to the byte"),
        (b"x = " + b"-" * 3000 + b"1\n", None, "nested too deeply"),
        (b"x = " + b"(" * 3000 + b"1" + b")" * 3000 + b"\n", 1, "too many nested parentheses"),
        (b"x = " + b"+".join([b"1"] * 900) + b"\n", None, "nested too deeply"),
    ],
)
def test_unreadable_bytes(data: bytes, line: int | None, words: str) -> None:
    error = failure(data)
    assert error.line == line
    assert words in error.message


def test_syntax_error_names_line_and_column() -> None:
    error = failure(b"import os\nfor x in y\n    pass\n")
    assert (error.line, error.column) == (2, 11)
    assert str(error).startswith("train.py:2:11: syntax error: ")
    assert "\n  remedy: " in str(error)


def test_what_only_python_refuses_is_a_syntax_error() -> None:
    assert failure(b"x = 1\nreturn x\n").line == 2


def test_python_2_is_recognised() -> None:
    assert "Python 2" in str(failure(b"print 'epoch', 1\n").remedy)


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (b"type Vector = list[float]\n", (3, 12)),
        (b"class Net[T]: pass\n", (3, 12)),
        (b"f'{d['loss']}'\n", (3, 12)),
        (b"x = t'{a}'\n", (3, 14)),
        (b"try:\n  pass\nexcept OSError, ValueError:\n  pass\n", (3, 14)),
    ],
)
def test_newer_syntax_names_the_python_it_needs(data: bytes, version: tuple[int, int]) -> None:
    if sys.version_info[:2] >= version:
        assert source_from_bytes(data, "train.py").module.bytes == data
    else:
        assert "needs Python {}.{}".format(*version) in str(failure(data).remedy)


def test_what_only_libcst_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("train.py", b"x = = 1\n", "x = = 1\n", "utf-8")
    with pytest.raises(DdpifyError, match=r"train.py:1:\d+: LibCST .* cannot parse") as caught:
        _ = source.module
    assert caught.value.exit_code == ExitCode.USAGE


def test_too_large_bytes() -> None:
    assert "5.0 MB is too large" in failure(b"#" * 5_000_001).message


def test_too_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "big.py"
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(DdpifyError, match="too large"):
        read_source(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DdpifyError, match="no such file") as caught:
        read_source(tmp_path / "train.py")
    assert caught.value.exit_code == ExitCode.USAGE


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(DdpifyError, match="folder"):
        read_source(tmp_path)


def test_path_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x = 1\n")
    with pytest.raises(DdpifyError, match="cannot read: Not a directory"):
        read_source(tmp_path / "a" / "train.py")


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_text("x = 1\n")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    # Permission bits do not stop root, so the refusal is simulated.
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DdpifyError, match="permission denied"):
        read_source(path)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x = 1\r\n")))
    source = read_source("-")
    assert (source.path, source.data) == ("<stdin>", b"x = 1\r\n")


def test_script_warnings_are_not_ours(recwarn: pytest.WarningsRecorder) -> None:
    _ = source_from_bytes(rb"x = '\d'" + b"\nif x is 'a': pass\n", "train.py").module
    assert not recwarn.list


def test_reading_does_not_import_libcst() -> None:
    code = "import sys, ddpify.source as s; s.source_from_bytes(b'x=1', 'a'); sys.exit('libcst' in "
    subprocess.run([sys.executable, "-c", code + "sys.modules)"], check=True, cwd=Path.cwd())


class TestWriting:
    def test_new_file_gets_the_umask_mode(self, tmp_path: Path) -> None:
        old = os.umask(0o027)
        try:
            write_atomically(tmp_path / "out.py", b"x\r\n")
        finally:
            os.umask(old)
        assert (tmp_path / "out.py").read_bytes() == b"x\r\n"
        assert stat.S_IMODE((tmp_path / "out.py").stat().st_mode) == 0o640

    def test_mode_is_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "out.py"
        path.write_bytes(b"old")
        path.chmod(0o751)
        write_atomically(path, b"new")
        assert path.read_bytes() == b"new"
        assert stat.S_IMODE(path.stat().st_mode) == 0o751

    def test_symbolic_link_stays_one(self, tmp_path: Path) -> None:
        (tmp_path / "real.py").write_bytes(b"old")
        (tmp_path / "link.py").symlink_to("real.py")
        write_atomically(tmp_path / "link.py", b"new")
        assert (tmp_path / "link.py").is_symlink()
        assert (tmp_path / "real.py").read_bytes() == b"new"

    def test_device_is_not_replaced(self) -> None:
        write_atomically(os.devnull, b"x")
        assert Path(os.devnull).is_char_device()

    def test_relative_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        write_atomically("out.py", b"x")
        assert (tmp_path / "out.py").read_bytes() == b"x"

    @pytest.mark.parametrize("name", ["", "missing/out.py"])
    def test_unwritable(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(DdpifyError, match="cannot write") as caught:
            write_atomically(tmp_path / name, b"x")
        assert caught.value.exit_code == ExitCode.USAGE
        assert not list(tmp_path.iterdir())

    def test_failure_leaves_the_old_file_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "out.py"
        path.write_bytes(b"old")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DdpifyError, match="No space left"):
            write_atomically(path, b"new")
        assert [p.name for p in tmp_path.iterdir()] == ["out.py"]
        assert path.read_bytes() == b"old"
