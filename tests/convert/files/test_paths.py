"""Files that paths of ``pathlib`` name, however these are made of others: rank 0 writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added

PATHS = [
    "Path('runs') / 'x'",
    "Path('runs').joinpath('x')",
    "Path(__file__).resolve().parent / 'x'",
    "Path(__file__).parents[1] / 'x'",
    "Path.cwd() / 'x'",
    "Path.home().joinpath('a', 'x')",
    "Path('runs/x').with_suffix('.pkl')",
    "Path('~/x').expanduser().absolute()",
    "sorted(Path('runs').glob('*'))[0]",
    "next(Path('runs').iterdir())",
    "pathlib.PosixPath('x')",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_file_that_a_path_opens_is_rank_0s(tmp_path: Path, path: str) -> None:
    text = f"import pathlib\nimport pickle\nfrom pathlib import Path\n{HEAD}{STEP}place = {path}\n"
    text += "with place.open('wb') as f:\n    pickle.dump([1], f)\n"
    lines = added(tmp_path, text)
    assert lines[-3:] == ["if dd.is_main():", "with place.open('wb') as f:", "pickle.dump([1], f)"]


def test_what_a_path_is_asked_that_decides_more_is_answered_by_rank_0(tmp_path: Path) -> None:
    text = f"from pathlib import Path\n{HEAD}place = Path.cwd().joinpath('seen.txt')\n"
    text += "if place.exists():\n    print('seen')\n    features = features * 2\nelse:\n"
    text += "    place.write_text('1')\n" + STEP
    assert "if dd.broadcast(place.exists()):" in added(tmp_path, text)
