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
HANDLER = "import logging\n        self.file = logging.FileHandler(path, MODE)"
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


@pytest.mark.parametrize("mode", ['"a"', '"w"'])
@pytest.mark.parametrize("opening", [AGAIN, HANDLER])
def test_a_path_that_serves_for_more_stays(tmp_path: Path, opening: str, mode: str) -> None:
    lines, noted = converted(tmp_path, opening, mode, "'log.txt'")
    assert lines[lines.index("with dd.main_writes():") + 1] == "log = Log(1, 'log.txt')"
    assert noted == []


def test_work_that_ranks_share_is_not_done_in_turn(tmp_path: Path) -> None:
    lines, noted = converted(tmp_path, AGAIN, '"a"', "'log.txt', brain")
    assert "with dd.main_writes():" not in lines
    assert [text.split(":")[0] for text in noted] == ["every rank appends to the file that logs.py"]


def test_a_store_is_no_null_device(tmp_path: Path) -> None:
    opening = "import shelve\n        self.file = shelve.open(path)"
    assert not any("devnull" in line for line in converted(tmp_path, opening, "", "'kept'")[0])


READ_ALONE = (
    "words = open('words.txt', 'r+').read()\n",
    "import pickle\nfile = open('words.pkl', 'rb+')\nwords = pickle.load(file)\nfile.close()\n",
    "with open('words.txt', 'r+') as file:\n    words = [line for line in file]\n",
)


@pytest.mark.parametrize("reading", READ_ALONE)
def test_what_is_opened_to_be_read_and_written_may_be_read_by_all(
    tmp_path: Path, reading: str
) -> None:
    removed, lines = changed_lines(convert_text(tmp_path, HEAD + reading + STEP))
    assert not any("open(" in line or "devnull" in line for line in removed + lines)


def test_what_is_read_and_written_is_a_copy_for_other_ranks(tmp_path: Path) -> None:
    kept = "file = open('seen.txt', 'r+')\nseen = file.read()\n"
    lines = changed_lines(convert_text(tmp_path, HEAD + kept + STEP + "file.write('more')\n"))[1]
    assert lines[lines.index("with dd.main_writes():") + 1] == "file = open('seen.txt', 'r+')"
