"""Files that a module opens for writing, where only the script may be changed."""

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, changed_lines, convert_text

MODULE = """\
class Log:
    def __init__(self, place, path, fresh=True):
        OPEN

    def put(self, one):
        self.file.write(f"{one}\\n")
"""
PLAIN = "self.path = path\n        self.file = open(path, MODE)"
AGAIN = "self.old = open(path).read()\n        self.file = open(path, MODE)"
SCRIPT = "from logs import Log\n" + HEAD + "log = Log(1, CALL)\n" + STEP + "    log.put(1)\n"


def converted(folder: Path, opening: str, mode: str, given: str) -> tuple[list[str], list[str]]:
    """The added lines, and the notes that are to be looked at."""
    (folder / "logs.py").write_text(MODULE.replace("OPEN", opening).replace("MODE", mode))
    conversion = convert_text(folder, SCRIPT.replace("CALL", given))
    noted = [note.text for note in conversion.notes if note.attention]
    return changed_lines(conversion)[1], noted


@pytest.mark.parametrize("mode", ['"a"', '"w"'])
@pytest.mark.parametrize("given", ["'log.txt'", "fresh=False, path='log.txt'"])
def test_the_other_ranks_open_the_null_device(tmp_path: Path, mode: str, given: str) -> None:
    lines, noted = converted(tmp_path, PLAIN, mode, given)
    path = "'log.txt' if dd.is_main() else os.devnull"
    assert f"log = Log(1, {given})".replace("'log.txt'", path) in lines
    assert noted == []


def test_a_path_that_is_read_first_is_no_null_device(tmp_path: Path) -> None:
    lines, noted = converted(tmp_path, AGAIN, '"a"', "'log.txt'")
    assert "log = Log(1, 'log.txt')" in lines
    assert [text.split(":")[0] for text in noted] == ["every rank appends to the file that logs.py"]


def test_what_every_rank_writes_anew_is_the_same_file(tmp_path: Path) -> None:
    assert converted(tmp_path, AGAIN, '"w"', "'log.txt'")[1] == []


def test_a_store_is_no_null_device(tmp_path: Path) -> None:
    opening = "import shelve\n        self.file = shelve.open(path)"
    assert not any("devnull" in line for line in converted(tmp_path, opening, "", "'kept'")[0])
