"""Lints many files: from the cache, in this process, or in a pool where that pays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ddpify import garbage, progress
from ddpify.errors import DdpifyError
from ddpify.lint.config import Settings, usage
from ddpify.lint.diagnostics import Diagnostic, Severity, Span
from ddpify.lint.engine import Result, joined, lint
from ddpify.lint.files.document import PYTHON, Document, kind_of

if TYPE_CHECKING:
    from ddpify.lint.cache import Cache

# Below so many bytes of source for each process, starting it costs more than it saves.
_BYTES_PER_WORKER = 250_000


def read(path: Path, folder: Path | None = None) -> Document:
    """A file as a document. A file that is named is Python whatever it is called.

    Raises:
        DdpifyError: With exit code 2 where it cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise usage(f"cannot read: {error.strerror}", path=path) from error
    return Document(str(path), data, kind_of(path) or PYTHON, folder)


def lint_files(
    paths: Sequence[Path],
    settings: Settings,
    *,
    folders: Sequence[Path] = (),
    jobs: int | None = None,
    cached: bool = True,
) -> list[tuple[Document, Result]]:
    """The result of each file, in order; ``folders`` are those that were named."""
    documents = [_read_or_report(path, folders) for path in paths]
    cache = _cache(settings) if cached else None
    results: dict[int, Result] = {}
    todo = []
    for number, (document, result) in enumerate(documents):
        known = result or (cache.get(document) if cache else None)
        if known is not None:
            results[number] = known
        else:
            todo.append(number)
    with progress.shown("file", len(todo)):
        fresh = _lint_all([documents[n][0] for n in todo], settings, jobs)
        for number, result in zip(todo, fresh, strict=True):
            results[number] = result
            if cache is not None:
                cache.put(documents[number][0], result)
    found = [(documents[n][0], results[n]) for n in range(len(documents))]
    return list(_with_what_others_need(found, settings))


def _cache(settings: Settings) -> Cache:
    """The cache, with the hashing that only it needs."""
    from ddpify.lint.cache import Cache

    return Cache(settings)


def _with_what_others_need(
    results: list[tuple[Document, Result]], settings: Settings
) -> Iterator[tuple[Document, Result]]:
    """The results, those of files that take part in another's training with what it needs there."""
    given: dict[str, list[Diagnostic]] = {}
    for _, result in results:
        for path in result.read.covers:
            given.setdefault(path, [])
        for one in result.read.elsewhere:
            given[one.path].append(one)
    said = {
        (one.code, (one.path, one.span.line))
        for _, result in results
        for one in result.read.elsewhere
        if not one.single
    }
    read = {os.path.realpath(document.path) for document, _ in results} if said else set()
    for document, result in results:
        needed = given.get(os.path.realpath(document.path)) if given else None
        if needed is not None and document.kind == PYTHON and result.failure is None:
            result = joined(document, settings, result, tuple(needed))
        yield document, replace(result, found=tuple(_not_said(result.found, said, read)))


def _not_said(
    found: Iterable[Diagnostic], said: set[tuple[str, tuple[str, int]]], read: set[str]
) -> Iterator[Diagnostic]:
    """The findings but for calls that lead to places which are all said in files that are read."""
    for one in found:
        elsewhere = [place[0] in read and (one.code, place) in said for place in one.about]
        if not elsewhere or not all(elsewhere):
            yield one


def _read_or_report(path: Path, folders: Sequence[Path]) -> tuple[Document, Result | None]:
    """A file that cannot be read is a finding; the others go on."""
    folder = next((one.absolute() for one in folders if path.is_relative_to(one)), None)
    try:
        return read(path, folder), None
    except DdpifyError as error:
        span = Span(1, 1, 1, 2)
        found = Diagnostic(str(path), span, "DDP000", "syntax-error", error.message, Severity.CRASH)
        return Document(str(path), b""), Result((found,))


def _lint_all(
    documents: Sequence[Document], settings: Settings, jobs: int | None
) -> Iterable[Result]:
    workers = _workers(documents, jobs)
    if workers < 2:
        return _counted(map(partial(lint, settings=settings), documents))
    return _pooled(documents, settings, workers)


def _counted(results: Iterable[Result]) -> Iterator[Result]:
    """The results; each is shown as progress."""
    for result in results:
        progress.advance("file")
        yield result


def _workers(documents: Sequence[Document], jobs: int | None) -> int:
    if jobs is not None:
        return min(jobs, len(documents))
    total = sum(len(document.data) for document in documents)
    return min(os.cpu_count() or 1, len(documents), total // _BYTES_PER_WORKER)


def _start_worker() -> None:
    """What a process of a pool begins with, as the one that started it did."""
    from ddpify.lint import light_libcst

    garbage.look_rarely()
    light_libcst.install()


def _pooled(documents: Sequence[Document], settings: Settings, workers: int) -> Iterator[Result]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    from ddpify.lint import interrupts

    # Large files first, so that none is left over at the end; results come back in order.
    order = sorted(range(len(documents)), key=lambda n: -len(documents[n].data))
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_start_worker
    ) as pool:
        try:
            with interrupts.held():  # the processes start here, and leave Ctrl-C to this one
                found = pool.map(partial(lint, settings=settings), [documents[n] for n in order])
            results = dict(zip(order, _counted(found), strict=True))
        except KeyboardInterrupt:
            interrupts.end_children()
            raise
        except BrokenProcessPool as error:
            raise usage(
                "a process of lint was ended from outside, perhaps for its memory",
                remedy="lint fewer files at once, or with --jobs 1",
            ) from error
    yield from (results[n] for n in range(len(documents)))
