"""Folders that are named by the time or counted, and files that are read back: before and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.convert.examples import HEAD, STEP, added

IMPORTS = """\
import glob
import os
import urllib.request
import scipy.io.wavfile
import shutil
import tempfile
import time
from datetime import datetime
from pathlib import Path
import numpy as np
"""


def shared(folder: Path, before: str, after: str = "") -> list[str]:
    """The added lines in which ranks meet."""
    lines = added(folder, IMPORTS + HEAD + before + STEP + after)
    return [line for line in lines if "dd.broadcast" in line or "dd.barrier" in line]


CLOCKS = {
    "a time": (
        "run = 'runs/' + time.strftime('%H%M%S')\nos.makedirs(run)\n",
        "run = 'runs/' + dd.broadcast(time.strftime('%H%M%S'))",
    ),
    "a date in a text": (
        "run = Path(f'runs/{datetime.now():%H%M%S}')\nrun.mkdir(parents=True)\n",
        "run = Path(f'runs/{dd.broadcast(datetime.now()):%H%M%S}')",
    ),
    "a chain": (
        "now = datetime.now().strftime('%d')\nrun = os.path.join('runs', now)\nos.mkdir(run)\n",
        "now = dd.broadcast(datetime.now().strftime('%d'))",
    ),
}


@pytest.mark.parametrize(("text", "line"), CLOCKS.values(), ids=CLOCKS)
def test_what_names_a_folder_is_rank_0s_clock(tmp_path: Path, text: str, line: str) -> None:
    assert shared(tmp_path, text) == [line]


def test_a_temporary_folder_is_one_for_all_ranks(tmp_path: Path) -> None:
    after = (
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    best = os.path.join(folder, 'best.pt')\n"
        "    torch.save(brain.state_dict(), best)\n"
        "    brain.load_state_dict(torch.load(best))\n"
    )
    line = "with dd.broadcast(tempfile.TemporaryDirectory()) as folder:"
    assert shared(tmp_path, "", after) == [line]


def test_the_folder_of_a_writer_is_rank_0s(tmp_path: Path) -> None:
    before = "from torch.utils.tensorboard import SummaryWriter\nlog = SummaryWriter()\n"
    after = (
        "best = os.path.join(log.log_dir, 'best.pt')\n"
        "torch.save(brain.state_dict(), best)\nbrain.load_state_dict(torch.load(best))\n"
    )
    line = "best = os.path.join(dd.broadcast(log.log_dir), 'best.pt')"
    assert shared(tmp_path, before, after) == [line]


ALONE = {
    "time for a print": "start = time.time()\nprint(time.time() - start)\n",
    "a file that rank 0 writes": "torch.save(brain.state_dict(), f'{time.time()}.pt')\n",
    "a file of one rank": "with open(f'{time.time()}.txt', 'w') as f:\n    f.write('x')\n",
    "a log's first line": (
        "if not os.path.exists('log.csv'):\n"
        "    with open('log.csv', 'w') as log:\n        log.write('loss')\n"
    ),
    "a folder that is made if missing": "if not os.path.exists('out'):\n    os.makedirs('out')\n",
    "a checkpoint that is resumed from": (
        "start = 0\nif os.path.exists('last.pt'):\n"
        "    start = torch.load('last.pt')['epoch']\n"
        "os.makedirs('out', exist_ok=True)\ntorch.save({'epoch': start + 1}, 'next.pt')\n"
    ),
}


@pytest.mark.parametrize("text", ALONE.values(), ids=ALONE)
def test_ranks_do_not_meet_without_need(tmp_path: Path, text: str) -> None:
    assert shared(tmp_path, text) == []


QUESTIONS = {
    "a loop": (
        "n = 1\nwhile os.path.exists(f'exp{n}'):\n    n += 1\nos.makedirs(f'exp{n}')\n",
        ["while dd.broadcast(os.path.exists(f'exp{n}')):"],
    ),
    "a count": (
        "run = f'exp{len(glob.glob('exp*'))}'\nos.makedirs(run)\n".replace("'exp*'", '"exp*"'),
        ["run = f'exp{len(dd.broadcast(glob.glob(\"exp*\")))}'"],
    ),
    "a function": (
        "def free():\n    for n in range(9):\n        p = Path(f'exp{n}')\n"
        "        if not p.exists():\n            return p\n"
        "folder = free()\nfolder.mkdir()\n",
        ["if not dd.broadcast(p.exists()):"],
    ),
    "what must be new": (
        "if os.path.exists('out'):\n    raise SystemExit('it is there')\nos.makedirs('out')\n",
        ["if dd.broadcast(os.path.exists('out')):"],
    ),
    "a cache": (
        "if not os.path.exists('x.pt'):\n    torch.save(features, 'x.pt')\n"
        "features = torch.load('x.pt')\n",
        ["if not dd.broadcast(os.path.exists('x.pt')):"],
    ),
}


@pytest.mark.parametrize(("text", "lines"), QUESTIONS.values(), ids=QUESTIONS)
def test_rank_0_answers_what_others_would_see_later(
    tmp_path: Path, text: str, lines: list[str]
) -> None:
    assert shared(tmp_path, text) == lines


SAVE = "torch.save(brain.state_dict(), 'last.pt')\n"
COPY = "shutil.copyfile('last.pt', 'best.pt')\n"
READ_BACK = {
    "a copy": (SAVE + COPY + "state = torch.load('best.pt')\n", 1),
    "a copy by a function": (
        f"def keep(state):\n    {COPY}{SAVE}keep(1)\nstate = torch.load('best.pt')\n",
        1,
    ),
    "a folder in a name": (
        "out = 'out'\nnp.save(os.path.join(out, 'x.npy'), [1])\nx = np.load(f'{out}/x.npy')\n",
        1,
    ),
    "removed once read": (SAVE + "state = torch.load('last.pt')\nos.remove('last.pt')\n", 1),
    "a folder of files": (
        "for n in range(3):\n    np.save(f'data/{n}.npy', [n])\nnames = os.listdir('data')\n",
        1,
    ),
    "a folder that goes": (
        "state = torch.load(os.path.join('out', 'a.pt'))\nshutil.rmtree('out')\n",
        1,
    ),
    "a file that is open for others too": (
        "with open('a.txt', 'w') as log:\n    text = 'a'\n    log.write(text)\n"
        "text = open('a.txt').read()\n",
        1,
    ),
    "a numbered name": (
        "def put(n, folder):\n    np.save(folder + 'part_{}.npy'.format(n), [n])\n\n\n"
        "put(1, 'data/')\nx = np.load('data/' + 'part_{}.npy'.format(1))\n"
        "y = np.load('data/' + 'part_%d.npy' % 1)\nz = np.load(f'data/part_{1 + 0}.npy')\n",
        1,
    ),
    "other numbered names": ("np.save(f'a/{1 + 1}.npy', [1])\nx = np.load(f'b/{1 + 1}.npy')\n", 0),
    "another folder": ("np.save(f'data/{1 + 1}.npy', [1])\nnames = os.listdir('out')\n", 0),
    "a command": ("os.system('cp a b')\nos.system('rm a')\n", 1),
    "two reads after one write": (COPY + "for n in range(3):\n    torch.load('best.pt')\n" * 2, 1),
    "another file": (COPY + "state = torch.load('start.pt')\n", 0),
    "another function's name": (
        "def put(path):\n    np.save(path, [1])\n\n\ndef get(path):\n    return np.load(path)\n"
        "put('a.npy')\nx = get('b.npy')\n",
        0,
    ),
    "a file of an object, in its methods": (
        "class Store:\n    def __init__(self, name):\n        self.name = name\n\n"
        "    def put(self):\n        np.save(os.path.join('data', self.name), [1])\n\n"
        "    def get(self):\n        return np.load(os.path.join('data', self.name))\n\n\n"
        "store = Store(os.environ['A'])\nstore.put()\nx = store.get()\n",
        1,
    ),
    "an option, in two functions": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--out')\n"
        "def put(args):\n    np.save(args.out, [1])\n\n\n"
        "def get(args):\n    return np.load(args.out)\n"
        "args = parser.parse_args()\nput(args)\nx = get(args)\n",
        1,
    ),
    "other files of an object": (
        "class Store:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\n\n"
        "    def put(self):\n        np.save(self.a, [1])\n\n"
        "    def get(self):\n        return np.load(self.b)\n\n\n"
        "store = Store(os.environ['A'], os.environ['B'])\nstore.put()\nx = store.get()\n",
        0,
    ),
    "a library's own files": (
        "scipy.io.savemat('a.mat', {'a': 1})\nx = scipy.io.loadmat('a.mat')\n"
        "scipy.io.wavfile.write('a.wav', 8, np.ones(3))\n_, y = scipy.io.wavfile.read('a.wav')\n",
        2,
    ),
    "a file that a library which is not known gets": (
        "import unknown\nnp.save('made/a.npy', [1])\nx = unknown.Table('./made/a.npy')\n",
        1,
    ),
    "other files that it gets, and what only takes a name apart": (
        "import unknown\nnp.save('a.npy', [1])\nx = unknown.Table('b.npy')\n"
        "name, kind = os.path.splitext('a.npy')\nunknown.tell('a.npy')\n",
        0,
    ),
    "by rank 0 alone": (COPY + "os.remove('best.pt')\n", 0),
}


@pytest.mark.parametrize(("text", "count"), READ_BACK.values(), ids=READ_BACK)
def test_ranks_wait_for_what_rank_0_alone_writes(tmp_path: Path, text: str, count: int) -> None:
    assert shared(tmp_path, "", text) == ["dd.barrier()"] * count


FETCH = "urllib.request.urlretrieve('http://x', 'x.bin')"
DOWNLOADS = {
    "if it is missing": (
        f"if not os.path.exists('x.bin'):\n    {FETCH}\n",
        "if not os.path.exists('x.bin'):",
    ),
    "by a function": (
        f"def fetch():\n    {FETCH}\n\n\nif not os.path.exists('x.bin'):\n    fetch()\n",
        "if not os.path.exists('x.bin'):",
    ),
    "and writes in a function": (
        "def keep(raw):\n    with open('x.bin', 'wb') as f:\n        f.write(raw)\n\n\n"
        "if not os.path.exists('x.bin'):\n"
        "    keep(urllib.request.urlopen('https://x.org/x.bin').read())\n",
        "if not os.path.exists('x.bin'):",
    ),
    "unless it leaves before": (
        f"def fetch():\n    if os.path.exists('x.bin'):\n        return 'x.bin'\n    {FETCH}\n"
        "    return 'x.bin'\n\n\nname = fetch()\n",
        "name = fetch()",
    ),
}


@pytest.mark.parametrize(("text", "line"), DOWNLOADS.values(), ids=DOWNLOADS)
def test_a_node_asks_and_downloads_rank_by_rank(tmp_path: Path, text: str, line: str) -> None:
    """A rank that comes later finds the file: it must not miss the others' meeting."""
    lines = added(tmp_path, IMPORTS + HEAD + text + STEP)
    assert lines[lines.index("with dd.local_main_first():") + 1] == line
    assert not any("dd.broadcast" in one or "dd.is_main" in one for one in lines)


def test_what_is_also_called_outside_of_a_download_writes_on_rank_zero(tmp_path: Path) -> None:
    text, _ = DOWNLOADS["and writes in a function"]
    assert "if dd.is_main():" in added(tmp_path, IMPORTS + HEAD + text + STEP + "keep(b'')\n")


def test_ranks_that_cannot_ask_one_by_one_have_one_answer(tmp_path: Path) -> None:
    text = (
        f"if not os.path.exists('x.bin'):\n    {FETCH}\n    torch.save(1, 'y.pt')\n"
        "    for a, b in feed:\n        print(brain(a).sum())\n"
    )
    lines = added(tmp_path, IMPORTS + HEAD + text + STEP)
    assert "if not dd.broadcast(os.path.exists('x.bin')):" in lines
    assert lines[lines.index("with dd.local_main_first():") + 1] == FETCH


@pytest.mark.parametrize(
    "made",
    ["tempfile.NamedTemporaryFile(delete=False).name", "tempfile.mkstemp()[1]"],
)
def test_a_temporary_file_that_each_rank_opens_itself_is_refused(tmp_path: Path, made: str) -> None:
    text = f"import tempfile\n{HEAD}place = {made}\n{STEP}torch.save(brain.state_dict(), place)\n"
    with pytest.raises(Refusal, match="opens a temporary file of its own"):
        added(tmp_path, text + "brain.load_state_dict(torch.load(place))\n")
    assert "dd.save(brain.state_dict(), place)" in added(tmp_path, text)


FETCHING = {
    "torchtext": "vectors = torchtext.vocab.GloVe(name='6B', dim=50)",
    "gensim.downloader": "words = gensim.downloader.load('glove-wiki-gigaword-50')",
    "sklearn.datasets": "houses = sklearn.datasets.fetch_california_housing()",
    "torch_geometric.datasets": "graphs = torch_geometric.datasets.TUDataset('data', 'MUTAG')",
}


@pytest.mark.parametrize("library", FETCHING)
def test_one_rank_of_a_node_fetches_before_the_others(tmp_path: Path, library: str) -> None:
    line = FETCHING[library]
    lines = added(tmp_path, f"import {library}\n{HEAD}{line}\n{STEP}")
    assert lines[lines.index("with dd.local_main_first():") + 1] == line
