"""Read a script to the byte, say clearly why one cannot be read, and write files atomically."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from ddpify.errors import DdpifyError, ExitCode
from ddpify.old_syntax import is_python_2, without_async

if TYPE_CHECKING:
    import libcst

STDIN = "-"
MAX_BYTES = 5_000_000
_MOST_BRACKETS = (
    200  # in each other, as Python allows: of thousands, LibCST's parser ends the process
)

_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK_OR_COMMENT = re.compile(rb"^[ \t\f]*(?:#.*)?$")


@dataclass(frozen=True, repr=False)
class Source:
    """One readable Python script.

    Attributes:
        path: The name to show in messages (``<stdin>`` for standard input).
        data: The file's bytes, line endings and byte-order mark included.
        text: ``data`` decoded, line endings kept, without a byte-order mark.
        encoding: The codec that turns ``text`` back into ``data``.
        before: The file's text where it is not ``text``: it has ``async=`` as an argument, which is
            ``non_blocking=`` in ``text`` and ``data``.
        renamed_async: The lines where that is so.
    """

    path: str
    data: bytes
    text: str
    encoding: str
    before: str | None = None
    renamed_async: tuple[int, ...] = ()

    @cached_property
    def tree(self) -> libcst.Module:
        """The concrete syntax tree, not compared with ``data``, which costs a third more.

        Raises:
            DdpifyError: LibCST refuses the script.
        """
        return _parse(self.data, self.path)

    @cached_property
    def module(self) -> libcst.Module:
        """The concrete syntax tree; its ``bytes`` equal ``data``.

        Raises:
            DdpifyError: LibCST refuses the script or does not reproduce it to the byte.
        """
        self.confirm(lambda: self.tree.code)
        return self.tree

    def confirm(self, render: Callable[[], str]) -> None:
        """Compare with what the tree gives back as code.

        Raises:
            DdpifyError: It is not this file to the byte, or the tree is too deep to be rendered.
        """
        try:
            code = render()
        except RecursionError as error:
            raise _too_deep(self.path) from error
        if code.encode(self.encoding) != self.data:
            raise _unreadable(
                "LibCST cannot reproduce this file to the byte",
                self.path,
                remedy="end lines with LF or CRLF, and start none with a form feed",
            )


def read_source(path: str | os.PathLike[str]) -> Source:
    """Read ``path``, or standard input for ``-``, with ``non_blocking=`` for ``async=``.

    Raises:
        DdpifyError: With exit code 2 when it is not a readable Python script.
    """
    name = os.fspath(path)
    data = sys.stdin.buffer.read() if name == STDIN else _read_bytes(name)
    shown = "<stdin>" if name == STDIN else name
    try:
        return source_from_bytes(data, shown)
    except DdpifyError as error:
        source = source_without_async(data, shown) if b"async" in data else None
        if source is None:
            raise error
        return source


def source_without_async(data: bytes, path: str) -> Source | None:
    """A script that Python compiles without ``async=``; None where there is something else."""
    written = _decoded(data, path)
    text, lines = without_async(written.text)
    try:
        source = source_from_bytes(text.encode(written.encoding), path)
    except DdpifyError:
        return None
    return replace(source, before=written.text, renamed_async=lines)


def source_from_bytes(data: bytes, path: str) -> Source:
    """Check that ``data`` is a Python script, and decode it; ``path`` is for messages only.

    Raises:
        DdpifyError: With exit code 2 when it is not.
    """
    source = _decoded(data, path)
    _compile(source)
    return source


def source_unchecked(path: str | os.PathLike[str]) -> Source:
    """Read and decode ``path``; whether it is Python shows when it is parsed.

    Raises:
        DdpifyError: With exit code 2 when it cannot be read as text.
    """
    name = os.fspath(path)
    return _decoded(_read_bytes(name), name)


def _decoded(data: bytes, path: str) -> Source:
    if len(data) > MAX_BYTES:
        raise _too_large(len(data), path)
    if not data.strip():
        raise _unreadable("the file is empty", path, remedy="name a training script")
    if (nul := data.find(b"\0")) >= 0:
        raise _unreadable(
            "the file contains NUL bytes: it is binary, or text in UTF-16",
            path,
            line=_line_of(data, nul),
            remedy="name a Python script; save UTF-16 text as UTF-8",
        )
    encoding, line = _declared_encoding(data, path)
    return Source(path, data, _decode(data, encoding, path, line), encoding)


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` aside in the same folder, then move it to ``path`` in one step.

    A file that exists keeps its mode, and a symbolic link its name; devices and pipes are written
    to directly.

    Raises:
        DdpifyError: With exit code 2 when the file cannot be written; nothing is left behind.
    """
    target = os.path.realpath(path)
    try:
        if Path(target).is_dir():
            raise IsADirectoryError(f"{target} is a folder")
        if Path(target).exists() and not Path(target).is_file():
            Path(target).write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        raise DdpifyError(
            f"cannot write: {_reason(error)}",
            path=path,
            remedy="name a file in a folder that exists and that you may write to",
            exit_code=ExitCode.USAGE,
        ) from error


def _replace(target: str, data: bytes) -> None:
    """Write and move; the temporary file is removed on any failure."""
    import tempfile  # loads much that reading alone does not need

    mode = _mode_for(target)
    handle, aside = tempfile.mkstemp(
        dir=os.path.dirname(target), prefix=f".{os.path.basename(target)}.", suffix=".tmp"
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, mode)
        os.replace(aside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def _mode_for(target: str) -> int:
    """The mode of ``target``, or what a new file gets under the process's umask."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def _read_bytes(path: str) -> bytes:
    """The file's bytes, or why there are none."""
    try:
        if Path(path).is_dir():
            raise _unreadable("this is a folder", path, remedy="name one Python script")
        if path.endswith(".ipynb"):
            raise _unreadable(
                "this is a notebook, which torchrun cannot start",
                path,
                remedy="ddpify convert NOTEBOOK -o FILE.py makes a script for torchrun of it",
            )
        # A huge file is refused by its size, without reading it.
        if Path(path).is_file() and (size := Path(path).stat().st_size) > MAX_BYTES:
            raise _too_large(size, path)
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise _unreadable("no such file", path, remedy="check the path") from error
    except PermissionError as error:
        raise _unreadable(
            "permission denied", path, remedy="make the file readable for this user"
        ) from error
    except (OSError, ValueError) as error:
        raise _unreadable(f"cannot read: {_reason(error)}", path) from error


def _declared_encoding(data: bytes, path: str) -> tuple[str, int | None]:
    """Codec of ``data`` by PEP 263, and the coding line (None: there is none, so UTF-8)."""
    if data.startswith(codecs.BOM_UTF8):
        return "utf-8-sig", None
    for number, line in enumerate(data.splitlines()[:2], 1):
        if match := _CODING.match(line):
            return _known_codec(match[1].decode("ascii", "replace"), path, number), number
        if not _BLANK_OR_COMMENT.match(line):
            break
    return "utf-8", None


def _known_codec(name: str, path: str, line: int) -> str:
    """The codec's canonical name."""
    try:
        return codecs.lookup(name).name
    except LookupError as error:
        raise _unreadable(
            f"unknown encoding {name!r} in the coding line",
            path,
            line=line,
            remedy="save the file as UTF-8 and remove the coding line",
        ) from error


def _decode(data: bytes, encoding: str, path: str, coding_line: int | None) -> str:
    """Text of ``data``; the message names the line of the first byte that does not decode."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = _line_of(data, error.start)
        byte = f"byte 0x{data[error.start]:02x}"
        if coding_line is None:
            message = f"not UTF-8 ({byte}), and there is no coding line"
            remedy = "save the file as UTF-8, or name its encoding: # -*- coding: latin-1 -*-"
        else:
            message = f"not {encoding} ({byte}), which line {coding_line} says it is"
            remedy = "correct the coding line, or save the file as UTF-8 and remove the line"
        raise _unreadable(message, path, line=line, remedy=remedy) from error
    except (LookupError, UnicodeError) as error:
        message = f"{encoding!r} in the coding line is not an encoding of text"
        remedy = "save the file as UTF-8 and remove the coding line"
        raise _unreadable(message, path, line=coding_line, remedy=remedy) from error


def _compile(source: Source) -> None:
    """Let the running Python check what LibCST does not, such as ``return`` at top level."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source.data, source.path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _syntax_error(source, error) from error
    except (RecursionError, MemoryError) as error:
        raise _too_deep(source.path) from error
    except (ValueError, OverflowError) as error:
        raise _unreadable(f"Python cannot compile this: {error}", source.path) from error


def _syntax_error(source: Source, error: SyntaxError) -> DdpifyError:
    """Python's own message, and the Python that is needed when that is the cause."""
    running = ".".join(map(str, sys.version_info[:2]))
    needed = _newer_python(source)
    if needed is not None:
        remedy = f"this script needs Python {needed}: run ddpify with it (this is {running})"
    elif is_python_2(error):
        remedy = f"this is Python 2: convert it first, with 2to3 -w {Path(source.path).name}"
        remedy += " (which comes with Python up to 3.12)"
    else:
        remedy = f"make the script run under Python {running} first"
    return _unreadable(
        f"syntax error: {error.msg}",
        source.path,
        line=error.lineno,
        column=error.offset,
        remedy=remedy,
    )


def _newer_python(source: Source) -> str | None:
    """Lowest Python with syntax that LibCST finds here and the running Python lacks, if any."""
    if _deepest_bracket(source.data) > _MOST_BRACKETS:
        return None
    try:
        module = _parse(source.data, source.path)
        versions = [version for node in _nodes(module) for version in _introduced(node)]
    except (DdpifyError, RecursionError):
        return None
    newest = max(versions, default=(3, 0))
    return ".".join(map(str, newest)) if newest > sys.version_info[:2] else None


def _deepest_bracket(data: bytes) -> int:
    """How deep brackets lie in each other, those in strings and comments included."""
    steps = ((byte in b"([{") - (byte in b")]}") for byte in data)
    return max(accumulate(steps), default=0)


def _nodes(node: libcst.CSTNode) -> Iterator[libcst.CSTNode]:
    """``node`` and all below it."""
    yield node
    for child in node.children:
        yield from _nodes(child)


def _introduced(node: libcst.CSTNode) -> Iterator[tuple[int, int]]:
    """Python version that brought this node's syntax, for what came after 3.10."""
    kind = type(node).__name__
    if kind == "TryStar":
        yield 3, 11
    elif kind in {"TypeAlias", "TypeParameters"}:
        yield 3, 12
    elif kind == "TemplatedString" or (kind == "ExceptHandler" and _bare_types(node)):
        yield 3, 14
    elif kind == "FormattedString" and _reuses_quote(node):
        yield 3, 12


def _bare_types(handler: libcst.CSTNode) -> bool:
    """``except A, B:`` without parentheses."""
    types = getattr(handler, "type", None)
    return type(types).__name__ == "Tuple" and not getattr(types, "lpar", ())


def _reuses_quote(string: libcst.CSTNode) -> bool:
    """An f-string whose own quote occurs inside one of its replacement fields."""
    quote = getattr(string, "end", "")
    literals = (node for part in string.children for node in _nodes(part))
    return any(_quote_of(node) == quote for node in literals)


def _quote_of(node: libcst.CSTNode) -> str | None:
    """The closing quote of a string literal; None for other nodes."""
    quote = getattr(node, "quote", None) or getattr(node, "end", None)
    return quote if isinstance(quote, str) else None


def _parse(data: bytes, path: str) -> libcst.Module:
    """LibCST's tree, or its complaint as a DdpifyError."""
    import libcst

    try:
        return libcst.parse_module(data)
    except libcst.ParserSyntaxError as error:
        raise _unreadable(
            f"LibCST {libcst.LIBCST_VERSION} cannot parse this, though Python "
            f"{sys.version_info[0]}.{sys.version_info[1]} can",
            path,
            line=error.editor_line,
            column=error.editor_column,
            remedy="upgrade libcst, or write this statement in older syntax",
        ) from error
    except (SyntaxError, UnicodeError) as error:
        raise _unreadable(
            f"LibCST {libcst.LIBCST_VERSION} cannot read this: {error}",
            path,
            remedy="save the file as UTF-8 and remove its coding line",
        ) from error


def _line_of(data: bytes, offset: int) -> int:
    """1-based line of the byte at ``offset``."""
    return len(data[: offset + 1].splitlines())


def _reason(error: Exception) -> str:
    """The operating system's words, without errno and file name."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _too_large(size: int, path: str) -> DdpifyError:
    return _unreadable(
        f"{size / 1e6:.1f} MB is too large for a script (the limit is {MAX_BYTES / 1e6:.0f} MB)",
        path,
        remedy="name a Python script; move data that is written into it to a file",
    )


def _too_deep(path: str) -> DdpifyError:
    return _unreadable(
        "an expression or a statement is nested too deeply",
        path,
        remedy="split it: a chain of several hundred operators or elif branches is too long",
    )


def _unreadable(
    message: str,
    path: str,
    *,
    line: int | None = None,
    column: int | None = None,
    remedy: str | None = None,
) -> DdpifyError:
    """An error about input that cannot be read: exit code 2."""
    return DdpifyError(
        message, path=path, line=line, column=column, remedy=remedy, exit_code=ExitCode.USAGE
    )
