"""Files that are removed by names that a list holds: rank 0 removes, all ranks keep the list."""

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added

REMOVED = ["made = names.pop(0)", "if dd.is_main():", "os.remove(made)"]


@pytest.mark.parametrize("gap", [" ", "\n    "])
def test_a_name_is_taken_out_of_its_list_by_all_ranks(tmp_path: Path, gap: str) -> None:
    lines = f"names = ['a', 'b']\nif len(names) > 1:{gap}os.remove(names.pop(0))\n"
    assert [
        s for s in added(tmp_path, f"import os\n{HEAD}{STEP}{lines}") if s in REMOVED
    ] == REMOVED


def test_a_write_behind_a_colon_is_rank_zeros(tmp_path: Path) -> None:
    text = f"import os\n{HEAD}{STEP}if brain.training: os.remove('a')\n"
    assert added(tmp_path, text)[-2:] == ["if dd.is_main():", "os.remove('a')"]
