"""What each process would make up for itself: names, seeds and decisions by the clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added, convert_text

IMPORTS = "import os, tempfile, time, uuid\nfrom datetime import datetime\n"
SAVED = "torch.save(brain.state_dict(), os.path.join(out, 'x.pt'))\n"
READ = "brain.load_state_dict(torch.load(os.path.join(out, 'x.pt')))\n"


def after(folder: Path, before_training: str, later: str = "") -> list[str]:
    lines = added(folder, IMPORTS + HEAD + before_training + STEP + later)
    return [line for line in lines if "broadcast" in line]


@pytest.mark.parametrize(
    "made",
    [
        "datetime.now().strftime('%H%M%S')",
        "str(int(time.time()))",
        "time.strftime('%H', time.localtime())",
        "uuid.uuid4().hex",
        "str(os.getpid())",
        "tempfile.mkdtemp()",
    ],
)
def test_a_folder_that_others_read_has_one_name(made: str, tmp_path: Path) -> None:
    assert after(tmp_path, f"out = {made}\n", SAVED + READ) == [f"out = dd.broadcast({made})"]


def test_what_rank_0_alone_uses_stays(tmp_path: Path) -> None:
    assert after(tmp_path, "out = time.strftime('%H')\n", SAVED) == []
    logged = "with open(time.strftime('%H'), 'w') as log:\n    log.write('done')\n"
    assert after(tmp_path, "", logged) == []


def test_a_name_by_an_option(tmp_path: Path) -> None:
    declared = (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('-o', '--out-dir', default=time.strftime('%H'))\n"
        "args = parser.parse_args([])\nos.makedirs(args.out_dir)\n"
    )
    (line,) = after(tmp_path, declared)
    assert line.endswith("default=dd.broadcast(time.strftime('%H')))")


def test_a_name_of_a_file_that_stays(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text("import time\nNOW = time.strftime('%H')\n")
    used = "import settings\nout = os.path.join('runs', settings.NOW)\nos.makedirs(out)\n"
    assert after(tmp_path, used) == ["out = os.path.join('runs', dd.broadcast(settings.NOW))"]


def test_a_name_made_for_each_sample_stays(tmp_path: Path) -> None:
    rows = (
        "class Rows(torch.utils.data.Dataset):\n"
        "    def __len__(self):\n        return 20\n"
        "    def __getitem__(self, i):\n"
        "        os.makedirs(time.strftime('%S'), exist_ok=True)\n"
        "        return features[i], labels[i]\n"
        "feed = DataLoader(Rows(), batch_size=6)\n"
    )
    assert after(tmp_path, rows) == []


def test_seeds_of_the_clock(tmp_path: Path) -> None:
    text = "seed = int(time.time())\ntorch.manual_seed(seed)\n"
    conversion = convert_text(tmp_path, IMPORTS + HEAD + text + STEP)
    assert b"seed = dd.broadcast(int(time.time()))" in conversion.data
    assert not [n for n in conversion.notes if n.attention]


IN_EPOCHS = """\
started = time.time()
for epoch in range(3):
{step}
    if {test}:
        {body}
"""


def decided(folder: Path, test: str, body: str) -> list[str]:
    step = "".join(f"    {line}\n" for line in STEP.splitlines())
    text = HEAD + IN_EPOCHS.format(step=step, test=test, body=body)
    return [line for line in added(folder, IMPORTS + text) if "broadcast" in line]


@pytest.mark.parametrize(
    "body", ["break", "rule.param_groups[0]['lr'] = 0.01", "torch.save(brain.state_dict(), 'x')"]
)
def test_a_decision_by_the_clock_is_rank_0s(body: str, tmp_path: Path) -> None:
    made = decided(tmp_path, "time.time() - started > 60", body)
    assert made == ["if dd.broadcast(time.time() - started > 60):"]


def test_the_part_of_a_condition_that_goes_by_the_clock(tmp_path: Path) -> None:
    made = decided(tmp_path, "time.time() - started > 60 and penalty.item() < 1", "break")
    assert made == ["if dd.broadcast(time.time() - started > 60) and penalty.item() < 1:"]


@pytest.mark.parametrize("body", ["print('slow')", "started = time.time()"])
def test_what_each_rank_may_decide_by_itself_stays(body: str, tmp_path: Path) -> None:
    assert decided(tmp_path, "time.time() - started > 60", body) == []


def test_a_loop_that_lasts_some_time(tmp_path: Path) -> None:
    step = "".join(f"    {line}\n" for line in STEP.splitlines())
    text = f"{IMPORTS}{HEAD}end = time.time() + 9\nwhile time.time() < end:\n{step}"
    assert "while dd.broadcast(time.time() < end):" in added(tmp_path, text)
