"""What verify runs, where, and what it says about scripts that it cannot compare."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from ddpify.verify import Kind, What, render, verify
from ddpify.verify.launch.launcher import Worker

pytestmark = pytest.mark.usefixtures("warm")


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.parent.rglob("*")
        if path.is_file()
    }


def test_nothing_changes_in_the_users_folder(folder: Path, worker: Worker) -> None:
    before = listing(folder)
    verify(Path("single.py"), Path("port.py"), worker=worker)
    assert listing(folder) == before


def test_constant_loss_is_vacuous(folder: Path, worker: Worker) -> None:
    text = (folder / "single.py").read_text()
    (folder / "flat.py").write_text(text.replace("loss.backward()", "(loss * 0).backward()"))
    verdict = verify(Path("flat.py"), Path("port.py"), worker=worker)
    assert verdict.kind is Kind.VACUOUS
    assert verdict.exit_code == 1
    assert "every gradient is zero" in render(verdict)


def test_no_training_is_vacuous(folder: Path, worker: Worker) -> None:
    (folder / "idle.py").write_text("print('hello')\n")
    verdict = verify(Path("idle.py"), Path("port.py"), worker=worker)
    assert verdict.kind is Kind.VACUOUS
    assert "no optimizer made a step" in render(verdict)


def test_broken_original_could_not_run(folder: Path, worker: Worker) -> None:
    (folder / "broken.py").write_text("import torch\nprint(1 / 0)\n")
    verdict = verify(Path("broken.py"), Path("port.py"), worker=worker)
    assert verdict.kind is Kind.COULD_NOT_RUN
    assert verdict.exit_code == 2
    text = render(verdict)
    assert "ZeroDivisionError" in text
    assert 'File "broken.py", line 2' in text
    assert "inside/rank.py" not in text


def test_endless_original_could_not_run(folder: Path, worker: Worker) -> None:
    (folder / "endless.py").write_text("while True:\n    pass\n")
    verdict = verify(Path("endless.py"), Path("port.py"), worker=worker, timeout=1.0)
    assert verdict.kind is Kind.COULD_NOT_RUN
    assert "did not end within 1 s" in render(verdict)


def test_hardcoded_cuda_and_batch_norm_of_each_rank(folder: Path, worker: Worker) -> None:
    verdict = verify(Path("cuda_single.py"), Path("cuda_port.py"), worker=worker)
    assert verdict.kind is Kind.EXCEPT, render(verdict)
    found = verdict.comparisons[0].differences
    assert [item.what for item in found] == [What.LOSS]
    assert [cause.name for cause in verdict.named] == ["batchnorm"]
    assert verdict.faked["Module.cuda"] == 1
    assert "GradScaler (off)" in verdict.faked
    assert "init_process_group (gloo)" in verdict.comparisons[0].faked


def test_stops_after_the_asked_steps(folder: Path, worker: Worker) -> None:
    verdict = verify(Path("single.py"), Path("port.py"), worker=worker, steps=3)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert verdict.steps == 3


def test_converts_first(folder: Path, worker: Worker) -> None:
    port = (folder / "port.py").read_text()
    (folder / "port.py").unlink()

    def convert(original: Path, target: Path) -> None:
        assert original.name == "single.py"
        target.write_text(port)

    verdict = verify(Path("single.py"), convert=convert, worker=worker)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert verdict.converted == "single_ddp.py"


def test_arguments_and_files_beside_the_folder(folder: Path, worker: Worker) -> None:
    data = folder.parent / "data"
    data.mkdir()
    (data / "numbers.txt").write_text("1 2 3 4\n")
    large = data / "large.bin"
    large.write_bytes(b"x" * (2 << 20))
    (folder / "reads.py").write_text(
        "import sys, torch\n"
        "v = [float(t) for t in open('../data/numbers.txt').read().split()]\n"
        "p = torch.nn.Parameter(torch.zeros(4))\n"
        "o = torch.optim.SGD([p], lr=float(sys.argv[1]))\n"
        "((p - torch.tensor(v)) ** 2).mean().backward()\n"
        "o.step()\n"
        "open('../data/large.bin', 'a').write('y')\n"
        "open('../data/new.txt', 'w').write('z')\n"
        "print(float(p.sum()))\n"
    )
    before = listing(folder)
    options = {"nproc": (1,), "script_args": ["0.5"]}
    verdict = verify(Path("reads.py"), Path("reads.py"), worker=worker, **options)  # type: ignore[arg-type]
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)
    assert listing(folder) == before


def test_writing_to_the_users_folder_is_refused(folder: Path, worker: Worker) -> None:
    target = folder / "absolute.txt"
    (folder / "writes.py").write_text(f"open({str(target)!r}, 'w').write('x')\n")
    verdict = verify(Path("writes.py"), Path("port.py"), worker=worker)
    assert verdict.kind is Kind.COULD_NOT_RUN
    assert "writes outside its folder" in render(verdict)
    assert not target.exists()


def test_temporary_files_are_the_scripts_own(folder: Path, worker: Worker) -> None:
    script = (folder / "single.py").read_text()
    lines = "import tempfile\nwith tempfile.TemporaryFile('w') as f:\n    f.write('x')\n"
    (folder / "single.py").write_text(script.replace("import torch\n", lines + "import torch\n", 1))
    verdict = verify(Path("single.py"), Path("port.py"), worker=worker, steps=1)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)


@pytest.mark.parametrize("name", ["missing.py", "."])
def test_unreadable_input(folder: Path, name: str) -> None:
    with pytest.raises(DdpifyError) as caught:
        verify(folder / name, folder / "port.py")
    assert caught.value.exit_code == 2


def test_runtime_port(folder: Path, worker: Worker) -> None:
    """The form that ddpify converts to, at world sizes that divide no batch."""
    verdict = verify(Path("single.py"), Path("runtime_port.py"), nproc=(1, 2, 3), worker=worker)
    assert verdict.kind is Kind.EQUIVALENT, render(verdict)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("input('name? ')", "its standard input is empty"),
        ("import argparse; p = argparse.ArgumentParser(); p.add_argument('x'); p.parse_args()",
         "give the script its arguments after --"),
    ],
)  # fmt: skip
def test_what_an_original_lacks(folder: Path, worker: Worker, line: str, remedy: str) -> None:
    (folder / "asks.py").write_text(line + "\n")
    verdict = verify(Path("asks.py"), Path("port.py"), worker=worker)
    assert verdict.kind is Kind.COULD_NOT_RUN
    assert remedy in render(verdict)
