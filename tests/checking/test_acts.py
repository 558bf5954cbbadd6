"""Reads of unfinished files, folders of each rank's own name, downloads, samples left out."""

from __future__ import annotations

from collections.abc import Callable

from ddpify.checking import Report

Checked = Callable[..., tuple[Report, list[str]]]

WRITE = "            with open('index.txt', 'w') as out:\n                out.write('0 1 2')\n"
EARLY = ("    best = float",
         "    import urllib.request\n    sampler.rank and __import__('time').sleep(1)\n"
         "    if rank == 0:\n        if True:\n" + WRITE +
         "{between}    open('index.txt').read()\n    best = float")  # fmt: skip
FOLDER = ("    best = float", "    os.makedirs(f'runs/{random.random()}')\n"
          "    os.makedirs(f'logs/rank{rank}')\n    best = float")  # fmt: skip
FETCH = ("    best = float",
         "    import urllib.request\n    try:\n"
         "        urllib.request.urlopen('http://localhost:9/weights.pt')\n"
         "    except OSError:\n        pass\n    best = float")  # fmt: skip


def found(report: Report, lines: list[str]) -> set[tuple[str, str]]:
    return {(one.code, lines[(one.line or 1) - 1].strip()[:16]) for one in report.findings}


def early(between: str) -> tuple[str, str]:
    return EARLY[0], EARLY[1].format(between=between)


def test_a_file_that_is_read_before_it_is_written(checked: Checked) -> None:
    assert found(*checked("sampled", early(""), steps=2)) == {("DDP419", "open('index.txt'")}


def test_a_barrier_before_the_read_is_enough(checked: Checked) -> None:
    edit = early("    dist.barrier()\n")
    assert found(*checked("sampled", edit, steps=2)) == set()


def test_what_a_library_keeps_for_itself_is_no_file_of_the_script(checked: Checked) -> None:
    cache = "__import__('os').environ['MPLCONFIGDIR'] + '/fonts.json'"
    edit = early(f"    dist.barrier()\n    open({cache}, 'w').close()\n")
    assert found(*checked("sampled", edit, steps=2)) == set()


def test_folders_downloads_and_an_evaluation_that_drops_samples(checked: Checked) -> None:
    both = (FOLDER[0], FOLDER[1].replace(FOLDER[0], FETCH[1]))
    drop = ("DistributedSampler(test_set)", "DistributedSampler(test_set, drop_last=True)")
    split = ("[64, 16]", "[65, 15]")
    assert found(*checked("sampled", both, drop, split)) == {
        ("DDP507", "os.makedirs(f'ru"), ("DDP117", "urllib.request.u"),
        ("DDP112", "test_loader = Da"),
    }  # fmt: skip
