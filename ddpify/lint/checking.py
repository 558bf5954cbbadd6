"""What the rules find in one file, and what a training that it starts needs in others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from ddpify.errors import DdpifyError
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Diagnostic, by_place, likely_at_most
from ddpify.lint.files.relevance import (
    MOST_FILES,
    files_never_started,
    files_without_training,
    is_program,
)
from ddpify.lint.files.unit_tests import is_unit_test
from ddpify.lint.scripts.script_kinds import OTHER
from ddpify.records import record
from ddpify.source import Source
from ddpify.understanding.budget import Exhausted
from ddpify.understanding.libraries.frameworks import ALL, frameworks_of

if TYPE_CHECKING:
    from ddpify.lint.scripts.script import Script

# A file without any of these words has nothing that a rule could find, whatever it imports.
# Networks are full of ``global_pool``, which lists no files.
_OF_RULES = re.compile(
    r"backward|distributed|DataLoader|multiprocessing|cuda|\.to\(|torch\.save|torch\.load|random_split"
    r"|makedirs|mkdir|SummaryWriter|wandb|download|open\(|fairscale|apex|listdir|ddpify"
    r"|glob(?!al)|global_?rank"
)
# The same for the rules that no framework makes moot.
_OF_OLD_NAMES = re.compile(
    r"cuda\.amp|_six\b|_multigpu|DataParallelCPU|clip_grad_norm\b|NCCL_|distributed\.(?:launch|depr|pipe)"
    r"|apex|fairscale|_gather_base|_scatter_base|_into_tensor|_scatter_tensor|broadcast_buffers"
    r"|_composable|distributed\._tensor|_state_dict|state_dict_type|wrap_policy"
)
# The same for the rules that look at files without training, too.
_OF_ANY_FILE = re.compile(_OF_OLD_NAMES.pattern + r"|distributed|[sS]ampler|cuda import|ddpify")
# The same for those of these rules that ask what comes from other files.
_OF_OTHER_FILES = re.compile(
    r"\ball_reduce\b|\b(?:reduce|broadcast)(?:\(| as )|\b(?:batch_)?sampler *="
)


@record
class Read:
    """What the rules say of one file, before its comments silence any of it.

    ``needs`` are the other files that this depends on. Of a file that starts a training,
    ``covers`` are the files that take part, and ``elsewhere`` is what it needs in them.
    """

    found: tuple[Diagnostic, ...] = ()
    needs: tuple[str, ...] = ()
    failure: str | None = None
    covers: tuple[str, ...] = ()
    elsewhere: tuple[Diagnostic, ...] = ()


NOTHING = Read()


class _Reach(Enum):
    """How much is understood, from all that a file imports to the names in it."""

    PROJECT = "with the files that it imports"
    FILE = "alone"
    NAMES = "without following its calls, for the rules that need no more"


def read_by_rules(source: Source, folder: Path, settings: Settings, codes: set[str]) -> Read:
    """All findings of the rules; a defect of ours is reported, never raised.

    Where imports lead too deep, or most of too many steps are in a file that is imported, the file
    is understood alone. Where that does not end either, the rules that need no understanding of
    calls remain. A finding tells so.

    Raises:
        DdpifyError: The file itself cannot be parsed.
    """
    stopped: Exhausted | RecursionError | None = None
    for reach in _Reach:
        if reach is _Reach.FILE and not _went_elsewhere(stopped, source):
            continue
        try:
            return _told(_check(source, folder, settings, codes, reach), source, codes, stopped)
        except (RecursionError, Exhausted) as error:
            stopped = error
        except DdpifyError:
            raise
        except Exception as error:
            return Read(failure=f"{type(error).__name__}: {error}")
    return _told(NOTHING, source, codes, stopped)


def _went_elsewhere(stopped: Exhausted | RecursionError | None, source: Source) -> bool:
    """Whether the file alone may be understood where it was not with what it imports."""
    if not isinstance(stopped, Exhausted):
        return True
    return stopped.path is not None and stopped.path.resolve() != Path(source.path).resolve()


def _told(
    read: Read, source: Source, codes: set[str], stopped: Exhausted | RecursionError | None
) -> Read:
    """What was read, with a finding where the analysis was cut short."""
    from ddpify.lint import unfinished

    if stopped is None or unfinished.CODE not in codes:
        return read
    told = unfinished.cut_short(str(source.path), stopped)
    found = (*map(likely_at_most, read.found), told)
    elsewhere = tuple(map(likely_at_most, read.elsewhere))
    return replace(read, found=tuple(sorted(found, key=by_place)), elsewhere=elsewhere)


def _check(
    source: Source, folder: Path, settings: Settings, codes: set[str], reach: _Reach
) -> Read:
    most_files = MOST_FILES if reach is _Reach.PROJECT else 1
    covered = {group for one in frameworks_of(source.text) for group in one.covers}
    if is_unit_test(Path(source.path), source.text) or reach is _Reach.NAMES:
        covered |= ALL
    if not _may_have_findings(source, covered):
        return NOTHING
    quiet = files_without_training(source, folder, most_files)
    if quiet is None and not (covered >= ALL or _OF_OTHER_FILES.search(source.text)):
        quiet = files_never_started(source, folder)
    if quiet is not None and not _OF_ANY_FILE.search(source.text):
        return Read(needs=quiet)
    from ddpify.lint import registry
    from ddpify.lint.files_of_a_run import OF_RANKS, findings_of, in_other_files
    from ddpify.lint.scripts.script import Script
    from ddpify.lint.unfinished import Unfinished

    # Where a framework does the rest, what remains are names that stand in the file itself.
    alone = quiet is not None or covered >= ALL
    script = Script(
        source,
        folder,
        strict=settings.strict,
        most_files=1 if alone else most_files,
        follow=not alone,
    )
    rules = [rule for rule in registry.load_all(codes) if rule.group not in covered]
    unfinished = Unfinished()
    found = findings_of(script, rules, source.path, unfinished)
    if found:
        source.confirm(lambda: script.module.parsed.code)  # in it the findings have their places
    starts = script.kind != OTHER and script.starts_training and not OF_RANKS & covered
    needs = tuple(sorted([*(quiet or ()), *_files_read(script)]))
    covers, here, elsewhere = (
        in_other_files(script, settings.codes, found, unfinished) if starts else ((), found, ())
    )
    ordered = tuple(sorted(here, key=by_place))
    read = Read(ordered, needs, unfinished.failure, covers, elsewhere)
    return _told(read, source, codes, unfinished.cut_short or script.facts.cut_short)


def _may_have_findings(source: Source, covered: set[str]) -> bool:
    """Whether a glance at the text leaves anything to the rules that frameworks do not cover."""
    if _OF_OLD_NAMES.search(source.text):
        return True
    return not covered >= ALL and (bool(_OF_RULES.search(source.text)) or is_program(source))


def _files_read(script: Script) -> Iterator[str]:
    """The other files that the findings of a script come from."""
    for file in script.project.files:
        if file is not script.module:
            yield str(file.path.resolve())
    read = script.__dict__  # what no rule has asked for was not read
    if read.get("requirements") is not None:
        yield str(read["requirements"])
    for name in ("texts", "beside", "settings", "around", "held"):
        yield from map(str, read.get(name) or ())
    yield from map(str, script.texts.launchers if "texts" in read else ())
