"""Plant the pitfalls of ``public/plants.csv`` into checkouts of public projects, and lint these.

    python -m benchmarks.plants FOLDER [PROJECT ...]

FOLDER holds a checkout of each repository of the table at its commit, as ``owner+name``. A row
without ``search`` puts its line before the line that it names; any other replaces a part of that
line. A row with an ``entry`` is linted with that script, which starts what the file holds. A row
without rules is a part of the pitfall in the row before or after it, and not counted. A repository
has copies, since some pitfalls hide others. A pitfall is found if one of its
rules has a finding at the planted line or near it that the file as it is does not have there, or
anywhere in the file if that rule has none in the file as it is.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

TABLE = Path(__file__).parent / "public" / "plants.csv"
NEAR = 6  # lines; a finding may be at the loop, the guard or the loader around a plant


@dataclass(frozen=True)
class Plant:
    """One row of the table."""

    repository: str
    copy: str
    file: str
    line: int
    search: str
    replace: str
    rules: frozenset[str]
    pitfall: str
    entry: str


@dataclass(frozen=True)
class Found:
    """One finding: its file, line, rule and confidence."""

    file: str
    line: int
    rule: str
    confidence: str


def main(folder: Path, projects: Iterable[str]) -> None:
    """Print a line for each plant, and how many are found by default and with --strict."""
    copies: dict[tuple[str, str], list[Plant]] = defaultdict(list)
    for plant in _read():
        copies[plant.repository, plant.copy].append(plant)
    shown = strict = count = 0
    for (repository, _), plants in copies.items():
        if projects and not any(one in repository for one in projects):
            continue
        for plant, found in _try(folder / repository.replace("/", "+"), plants):
            sure = found - {"possible"}
            word = "found" if sure else "strict" if found else "MISSED"
            print(f"{word:6} {repository} {plant.file}:{plant.line} {plant.pitfall}", flush=True)
            shown, strict, count = shown + bool(sure), strict + bool(found), count + 1
    print(f"{count} planted, {shown} found by default, {strict} with --strict")


def _read() -> list[Plant]:
    with TABLE.open(newline="") as table:
        return [
            Plant(row["repository"], row["copy"], row["file"], int(row["line"]), row["search"],
                  row["replace"], frozenset(row["rules"].split("|")) - {""}, row["pitfall"],
                  row["entry"])
            for row in csv.DictReader(table)
        ]  # fmt: skip


def _try(source: Path, plants: list[Plant]) -> list[tuple[Plant, set[str]]]:
    """For each plant of one copy the confidences of what is found about it."""
    with tempfile.TemporaryDirectory() as place:
        copy = _checkout(source, Path(place))
        files = sorted({name for plant in plants for name in (plant.file, plant.entry) if name})
        before = _before(source, tuple(files))
        for plant in sorted(plants, key=lambda one: -one.line):
            _plant(copy / plant.file, plant)
        after = _lint(copy, files)
        new = _new(before, after, source, copy)
    counted = [plant for plant in plants if plant.rules]
    return [(plant, _about(plant, plants, before, new)) for plant in counted]


@cache
def _before(source: Path, files: tuple[str, ...]) -> list[Found]:
    """What is found without any plant, once for all copies with the same files."""
    with tempfile.TemporaryDirectory() as place:
        return _lint(_checkout(source, Path(place)), [*files])


def _checkout(source: Path, place: Path) -> Path:
    """A copy with the ``.git`` that users have, by which the root of a project is known."""
    copy = place / source.name
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".git"))
    (copy / ".git").mkdir()
    return copy


def _plant(path: Path, plant: Plant) -> None:
    lines = path.read_text().splitlines(keepends=True)
    at = plant.line - 1
    if plant.search:
        assert plant.search in lines[at], f"{plant.file}:{plant.line} has no {plant.search}"
        lines[at] = lines[at].replace(plant.search, plant.replace, 1)
    else:
        below = next(line for line in lines[at:] if line.strip())
        indent = below[: len(below) - len(below.lstrip())]
        lines.insert(at, f"{indent}{plant.replace}\n")
    compile("".join(lines), str(path), "exec")
    path.write_text("".join(lines))


def _lint(folder: Path, files: list[str]) -> list[Found]:
    command = [sys.executable, "-m", "ddpify", "lint", *files, "--strict", "--no-cache",
               "--output-format", "json", "--jobs", "1"]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [
        Found(one["filename"], one["location"]["row"], one["code"], one["confidence"])
        for one in json.loads(done.stdout)
        if one["context"] != "single-process"
    ]


def _new(before: list[Found], after: list[Found], source: Path, copy: Path) -> list[Found]:
    """The findings at lines for which the file as it is has none of the same rule."""
    known = {(one.file, one.rule, one.line) for one in before}
    places = {one.file: _lines_before(source / one.file, copy / one.file) for one in after}
    return [
        one
        for one in after
        if not any((one.file, one.rule, line) in known for line in places[one.file][one.line])
    ]


def _lines_before(source: Path, copy: Path) -> dict[int, range]:
    """For each line of a planted file, from 1, the lines of the file as it is in its place."""
    texts = [path.read_text().splitlines() for path in (source, copy)]
    found: dict[int, range] = {}
    for word, start, end, first, last in SequenceMatcher(None, *texts, False).get_opcodes():
        for line in range(first, last):
            at = start + line - first
            found[line + 1] = (
                range(at + 1, at + 2) if word == "equal" else range(start + 1, end + 1)
            )
    return found


def _about(plant: Plant, plants: list[Plant], before: list[Found], after: list[Found]) -> set[str]:
    moved = sum(
        not one.search and one.file == plant.file and one.line < plant.line for one in plants
    )
    here = plant.line + moved
    known = {(one.file, one.rule) for one in before}
    return {
        one.confidence
        for one in after
        if one.rule in plant.rules
        and (
            (one.file == plant.file and abs(one.line - here) <= NEAR)
            or (one.file, one.rule) not in known
        )
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
