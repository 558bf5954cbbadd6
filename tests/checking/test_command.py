"""The command: its output, its exit codes, and comments that silence it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpify.checking import check
from ddpify.convert import convert_file
from ddpify.verify.launch.launcher import Worker
from tests.conftest import FIXTURES, Ddpify

pytestmark = pytest.mark.usefixtures("shared_worker")

RIGHT = ("batchnorm_cnn", "hardcoded_cuda", "iterable_dataset", "random_rows", "time_first")


def edit(path: Path, old: str, new: str) -> None:
    source = path.read_text()
    assert old in source
    path.write_text(source.replace(old, new))


def test_a_finding_as_text_and_as_json(folder: Path, ddpify: Ddpify) -> None:
    edit(folder / "sampled.py", "        sampler.set_epoch(epoch)\n", "")
    done = ddpify("check", "sampled.py")
    assert done.code == 1
    assert "sampled.py:51: DDP102" in done.stdout
    assert "remedy: call sampler.set_epoch(epoch)" in done.stdout
    assert "seen in this run" in done.stdout
    done = ddpify("check", "sampled.py", "--json")
    assert done.code == 1
    report = json.loads(done.stdout)
    (found,) = report["findings"]
    assert (found["code"], found["path"], found["line"]) == ("DDP102", "sampled.py", 51)
    assert (found["certainty"], found["ranks"]) == ("seen", [0, 1])


def test_a_comment_silences_a_finding_at_its_line(folder: Path, ddpify: Ddpify) -> None:
    line = '    print("begin")\n    best = float'
    edit(folder / "sampled.py", "    best = float", line)
    assert ddpify("check", "sampled.py", "--steps", "2").code == 1
    edit(folder / "sampled.py", '("begin")', '("begin")  # ddpify: ignore[DDP508]')
    done = ddpify("check", "sampled.py", "--steps", "2")
    assert done.code == 0
    assert "1 silenced" in done.stdout


def test_a_script_that_fails_is_not_judged(folder: Path, ddpify: Ddpify) -> None:
    edit(folder / "averaged.py", "    model = nn.Seq", "    1 / 0\n    model = nn.Seq")
    done = ddpify("check", "averaged.py")
    assert done.code == 2
    assert "ZeroDivisionError" in done.stdout


@pytest.mark.parametrize("arguments", [("none.py",), ("averaged.py", "--nproc", "1")])
def test_wrong_usage(folder: Path, ddpify: Ddpify, arguments: tuple[str, ...]) -> None:
    assert ddpify("check", *arguments).code == 2


def test_a_look_at_one_batch_before_the_epoch_is_no_epoch(folder: Path, ddpify: Ddpify) -> None:
    line = "        sampler.set_epoch(epoch)\n"
    edit(folder / "sampled.py", line, f"        size = len(next(iter(loader)))\n{line}")
    done = ddpify("check", "sampled.py")
    assert done.code == 0, done.stdout


def test_a_hang_names_the_line_of_each_rank(folder: Path, ddpify: Ddpify) -> None:
    edit(folder / "sampled.py", "        dist.barrier()\n", "        rank or dist.barrier()\n")
    done = ddpify("check", "sampled.py", "--json")
    (found,) = json.loads(done.stdout)["findings"]
    assert found["code"] == "DDP401"
    lines = (folder / "sampled.py").read_text().splitlines()
    assert "rank or dist.barrier()" in lines[found["line"] - 1]
    assert "on rank 0" in found["message"]
    assert "on rank 1" in found["message"]


@pytest.mark.parametrize("name", RIGHT)
def test_conversions_have_no_finding(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: Worker
) -> None:
    script = tmp_path / "train_ddp.py"
    script.write_bytes(convert_file(FIXTURES / name / "train.py").data)
    monkeypatch.chdir(tmp_path)
    report = check(script, timeout=120, worker=worker)
    assert report.failure is None
    assert report.findings == []
    assert min(report.steps) > 4


def test_a_page_and_sarif(folder: Path, ddpify: Ddpify) -> None:
    edit(folder / "sampled.py", "        sampler.set_epoch(epoch)\n", "")
    done = ddpify("check", "sampled.py", "--report", "o.html", "--sarif", "o.sarif")
    assert done.code == 1
    page = (folder / "o.html").read_text()
    assert "DDP102" in page
    assert "<mark>   51" in page
    (result,) = json.loads((folder / "o.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "DDP102"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 51


STARTED_BY_SPAWN = "    torch.multiprocessing.spawn(run, args=(count,), nprocs=count)"
STARTED_ONE_BY_ONE = """\
    started = []
    for rank in range(count):
        started.append(torch.multiprocessing.Process(target=run, args=(rank, count)))
        started[-1].start()
    for one in started:
        one.join()
        assert one.exitcode == 0"""


@pytest.mark.parametrize("start", [STARTED_BY_SPAWN, STARTED_ONE_BY_ONE])
def test_ranks_that_the_script_starts_are_followed(
    folder: Path, ddpify: Ddpify, start: str
) -> None:
    edit(
        folder / "averaged.py",
        'if __name__ == "__main__":\n    main()',
        "def run(rank, world):\n"
        "    os.environ.update(MASTER_ADDR='localhost', RANK=str(rank), WORLD_SIZE=str(world))\n"
        "    main()\n\n\n"
        'if __name__ == "__main__":\n'
        "    gpu = torch.accelerator.is_available()\n"
        "    kind = torch.accelerator.current_accelerator().type if gpu else 'cpu'\n"
        "    count = torch.accelerator.device_count() if kind == 'cuda' else 1\n" + start,
    )
    edit(folder / "averaged.py", "import torch\n", "import os\nimport torch\n")
    edit(folder / "averaged.py", "            average(model, world)\n", "")
    done = ddpify("check", "averaged.py", "--json")
    assert [one["code"] for one in json.loads(done.stdout)["findings"]] == ["DDP303"]
