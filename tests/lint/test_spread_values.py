"""Names that get the elements of a display side by side with what a starred element spreads."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

PLACES = "kept = rank, local_rank\n"
WRITE = 'with open(folder + "/options.txt", "w") as file:\n    file.write("done")\n'
SHARED = {
    "before a star": "folder, size, mine, gpu = 'runs', 4, *kept\n",
    "behind a star": "mine, gpu, folder = *kept, 'runs'\n",
    "between": "size, mine, gpu, folder = 4, *kept, 'runs'\n",
    "attributes": ("args.folder, args.rank, args.gpu = 'runs', *kept\nfolder = args.folder\n"),
    "a list": "[folder, mine, gpu] = ['runs', *kept]\n",
    "an empty star": "folder, size = 'runs', 4, *()\n",
}
OWN = {
    "of the star": "size, folder, gpu = 4, *(f'runs{rank}', local_rank)\n",
    "behind the star": "mine, gpu, folder = *kept, f'runs{rank}'\n",
    "of a starred target": "size, *more = 4, *kept, 'runs'\nfolder = str(more[0])\n",
    "of two stars": "size, folder, gpu = *[4], *[f'runs{rank}', local_rank]\n",
}
ARGS = "args = argparse.ArgumentParser().parse_args()\n"


@pytest.mark.parametrize("name", [*SHARED, *OWN])
def test_a_path_beside_what_is_spread(name: str, lint_text: Lint) -> None:
    text = SETUPS["distributed"] + ARGS + PLACES + {**SHARED, **OWN}[name] + WRITE
    assert bool(lint_text(text, select=("DDP501",))) is (name in SHARED)
