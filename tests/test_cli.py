"""The command line: exit codes, one clear message for bad input, and nothing written then."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.conftest import FIXTURES, Ddpify, Finished

ROOT = FIXTURES.parent
SCRIPT = (FIXTURES / "global_script" / "train.py").read_bytes()

UNREADABLE: dict[str, tuple[bytes, str, str]] = {
    "syntax error": (
        b"import torch\nfor x in y\n    pass\n",
        "train.py:2:11: syntax error",
        "Python",
    ),
    "not UTF-8": (b"import torch\nname = 'caf\xe9'\n", "train.py:2: not UTF-8", "coding: latin-1"),
    "empty": (b"", "train.py: the file is empty", "name a training script"),
    "blank": (b"\n\n  \n", "train.py: the file is empty", "name a training script"),
    "NUL bytes": (b"import torch\n\0\n", "train.py:2: the file contains NUL", "Python script"),
    "Python 2": (b"print 'epoch', 1\n", "train.py:1:1: syntax error", "Python 2"),
}

PREPARED = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
{imports}
dataset = TensorDataset(torch.ones(6, 2), torch.ones(6, 1))
model = torch.nn.Linear(2, 1)
{setup}
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset, batch_size=2):
    opt.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    opt.step()
"""
DISTRIBUTED = {
    "process group": (
        "from datetime import timedelta",
        "dist.init_process_group('gloo', timeout=timedelta(0, 60))",
        7,
    ),
    "DDP": (
        "from torch.nn.parallel import DistributedDataParallel as DDP",
        "model = DDP(model)",
        7,
    ),
    "sampler": (
        "from torch.utils.data.distributed import DistributedSampler",
        "sampler = DistributedSampler(dataset)",
        7,
    ),
    "FSDP2": ("from torch.distributed.fsdp import fully_shard", "fully_shard(model)", 7),
    "spawn": ("import torch.multiprocessing as mp", "mp.spawn(print, nprocs=2)", 7),
}
FRAMEWORKS = {
    "PyTorch Lightning": [
        "import pytorch_lightning as pl",
        "from lightning.pytorch import Trainer",
    ],
    "Lightning Fabric": ["from lightning.fabric import Fabric", "import lightning_fabric"],
    "Accelerate": ["from accelerate import Accelerator", "import accelerate.utils"],
    "the Hugging Face Trainer": [
        "from transformers import AutoModel, Trainer",
        "from transformers import (\n    AutoModel,\n    Seq2SeqTrainer,\n)",
    ],
    "DeepSpeed": ["import deepspeed"],
    "Horovod": ["import horovod.torch as hvd"],
    "Ray Train": ["from ray.train.torch import TorchTrainer", "from ray import train"],
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def unchanged(tmp_path: Path) -> Iterator[None]:
    """Nothing is written between the test's own files and its end."""

    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    (tmp_path / "train.py").write_bytes(SCRIPT)
    (tmp_path / "other.py").write_bytes(b"x = 1\n")
    (tmp_path / "folder").mkdir()
    before = contents()
    yield
    assert contents() == before


def write(data: str | bytes) -> Path:
    path = Path("train.py")
    path.write_bytes(dedent(data).encode() if isinstance(data, str) else data)
    return path


def assert_refused(done: Finished, code: int, message: str, remedy: str) -> None:
    """One message in two lines, and no file but the input."""
    assert done.code == code, done.stderr
    assert done.stdout == ""
    head, *rest = done.stderr.splitlines()
    assert head.startswith(f"ddpify: {message}")
    assert len(rest) == 1
    assert rest[0].startswith("  remedy: ")
    assert remedy in rest[0]
    assert sorted(path.name for path in Path().iterdir()) == ["train.py"]


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_input_is_2(ddpify: Ddpify, name: str) -> None:
    data, message, remedy = UNREADABLE[name]
    write(data)
    assert_refused(ddpify("convert", "train.py", "-o", "out.py"), 2, message, remedy)


def test_a_folder_is_2(ddpify: Ddpify) -> None:
    Path("train.py").mkdir()
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert_refused(done, 2, "train.py: this is a folder", "--entry")


def test_a_missing_file_is_2(ddpify: Ddpify) -> None:
    write(SCRIPT)
    done = ddpify("convert", "trian.py", "-o", "out.py")
    assert_refused(done, 2, "trian.py: no such file", "check the path")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_2(ddpify: Ddpify) -> None:
    write(SCRIPT).chmod(0)
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert_refused(done, 2, "train.py: permission denied", "readable")


@pytest.mark.parametrize("text", ["import torch\nprint(torch.ones(3))\n", "print('hello')\n"])
def test_without_a_training_loop_is_1(ddpify: Ddpify, text: str) -> None:
    write(text)
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert_refused(done, 1, "train.py: it has no training loop", "the script that trains")


def test_a_file_that_starts_nothing_is_1(ddpify: Ddpify) -> None:
    text = (
        "import torch\n\nDEVICE = torch.device('cpu')\n\n\nclass Trainer:\n"
        "    def __init__(self, model, feed):\n        self.model, self.feed = model, feed\n"
        "        self.rule = torch.optim.SGD(model.parameters(), lr=0.1)\n\n"
        "    def fit(self):\n        for x, y in self.feed:\n"
        "            (self.model(x) - y).pow(2).mean().backward()\n            self.rule.step()\n"
    )
    write(text)
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert_refused(done, 1, "train.py: there is no training to convert", "script that calls them")
    write(f"{text}\n\nTrainer(torch.nn.Linear(2, 2), unknown).fit()\n")
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert "there is no training to convert" not in done.stderr


def test_a_loss_that_cannot_be_followed_is_named(ddpify: Ddpify) -> None:
    write("import elsewhere\nloss = elsewhere.loss()\nloss.backward()\n")
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert_refused(done, 1, "train.py:3: where this loss comes from", "code that ddpify can read")


def test_a_module_that_cannot_be_read_is_named_where_the_training_loop_may_be(
    ddpify: Ddpify,
) -> None:
    write("import steps\nsteps.train()\n")
    Path("steps.py").write_text("def train(async):\n    loss.backward()\n")
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert done.code == 1
    assert "it has no training loop: nothing here calls backward(); a module" in done.stderr
    assert "make the script run under Python" in done.stderr
    assert "steps.py:1:" in done.stderr


def test_without_a_batch_is_1(ddpify: Ddpify) -> None:
    text = PREPARED.format(imports="", setup="").replace(
        "(model(x) - y).pow(2).mean()", "model.weight.pow(2).mean()"
    )
    assert "weight" in text
    write(text)
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert_refused(done, 1, "train.py:12: the loss comes neither from", "batches of samples")


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_already_distributed_is_1(ddpify: Ddpify, name: str) -> None:
    imports, setup, line = DISTRIBUTED[name]
    write(PREPARED.format(imports=imports, setup=setup))
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert_refused(done, 1, f"train.py:{line}: it is already distributed", "ddpify lint")


@pytest.mark.parametrize("vendor", [False, True])
def test_already_converted_is_1(ddpify: Ddpify, tmp_path: Path, vendor: bool) -> None:
    write(SCRIPT)
    Path("out").mkdir()
    options = ["--vendor"] if vendor else []
    assert ddpify("convert", "train.py", "-o", "out/train.py", *options).code == 0
    os.rename("out/train.py", "train.py")
    for path in Path("out").iterdir():
        path.unlink()
    Path("out").rmdir()
    done = ddpify("convert", "train.py", "-o", "again.py")
    assert_refused(done, 1, "train.py:5: it is already converted", "the original")


@pytest.mark.parametrize(
    ("name", "imports"), [(name, line) for name, lines in FRAMEWORKS.items() for line in lines]
)
def test_frameworks_that_distribute_themselves_are_1(
    ddpify: Ddpify, name: str, imports: str
) -> None:
    write(PREPARED.format(imports=imports, setup=""))
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert_refused(done, 1, f"train.py:4: {name} already trains on many GPUs", "number of devices")


def test_a_framework_of_which_another_part_is_used_is_converted(ddpify: Ddpify) -> None:
    write(PREPARED.format(imports="from ray import tune", setup=""))
    assert ddpify("convert", "train.py", "-o", "out.py").code == 0


USAGE: dict[str, tuple[list[str], str, str]] = {
    "nowhere": (["train.py"], "nowhere to write to", "-o FILE"),
    "itself": (["train.py", "-o", "train.py"], "the output is the script itself", "--in-place"),
    "itself, overwritten": (
        ["train.py", "-o", "./folder/../train.py", "--overwrite"],
        "the output is the script itself",
        "--in-place",
    ),
    "exists": (["train.py", "-o", "other.py"], "the output exists already", "--overwrite"),
    "folder": (["train.py", "-o", "folder"], "the output is a folder", "name a file"),
    "no folder": (["train.py", "-o", "new/out.py"], "folder does not exist", "mkdir -p new"),
    "long name": (["train.py", "-o", "a" * 300], "cannot write: ", "name a file"),
    "twice": (["train.py", "-o", "out.py", "--in-place"], "both --in-place and -o", "one of them"),
    "stdin in place": (["-", "--in-place"], "standard input has no place", "-o -"),
    "diff and stdout": (["train.py", "-o", "-", "--diff"], "both go to standard output", "--diff"),
    "vendor and stdout": (["train.py", "-o", "-", "--vendor"], "second file", "-o FILE"),
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", USAGE)
def test_wrong_usage_is_2(ddpify: Ddpify, name: str) -> None:
    arguments, message, remedy = USAGE[name]
    done = ddpify("convert", *arguments)
    assert (done.code, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert message in first
    assert second.startswith("  remedy: ")
    assert remedy in second


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["convert", "train.py", "-o", "out.py", "--nope"], "No such option: --nope"),
        (["convert"], "Missing argument"),
        (["transform", "train.py"], "No such command 'transform'"),
        (["verify", "train.py", "--steps", "0"], "--steps"),
        (["verify", "train.py", "--timeout", "soon"], "--timeout"),
        (["check", "train.py", "--nproc", "0"], "--nproc"),
        (["plan", "train.py", "--memory", "0"], "--memory"),
        (["profile", "train.py", "--timeout", "0"], "--timeout"),
    ],
)
def test_unknown_and_missing_arguments_are_2(
    ddpify: Ddpify, arguments: list[str], message: str
) -> None:
    done = ddpify(*arguments)
    assert done.code == 2
    assert message in done.stderr
    assert "--help" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("nproc", ["0", "-1", "two", "", "2,", "2,0", "1.5"])
def test_numbers_of_processes_that_are_none_are_2(ddpify: Ddpify, nproc: str) -> None:
    done = ddpify("verify", "train.py", f"--nproc={nproc}")
    assert done.code == 2
    assert done.stderr.splitlines() == [
        f"ddpify: not numbers of processes: {nproc!r}",
        "  remedy: use --nproc 2 or --nproc 2,3",
    ]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.py"], 2, "missing.py"),
        (["folder"], 2, "folder"),
        (["train.py", "missing.py"], 2, "missing.py"),
        (["other.py"], 1, "other.py: it has no training loop"),
    ],
)
def test_verify_says_what_it_cannot_run(
    ddpify: Ddpify, arguments: list[str], code: int, message: str
) -> None:
    done = ddpify("verify", *arguments)
    assert done.code == code
    assert done.stderr.startswith(f"ddpify: {message}")


def test_done_is_0_and_says_what_was_changed(ddpify: Ddpify) -> None:
    write(SCRIPT)
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert (done.code, done.stdout) == (0, "")
    first, *changes, check, last = done.stderr.splitlines()
    assert first == f"train.py: {len(changes)} changes, written to out.py"
    assert all(line.startswith("  train.py:") for line in changes)
    assert check.endswith("DDPIFY_CHECK=20 torchrun --nproc_per_node=N out.py")
    assert last == "run it: torchrun --nproc_per_node=N out.py"
    assert sorted(path.name for path in Path().iterdir()) == ["out.py", "train.py"]
    assert Path("train.py").read_bytes() == SCRIPT


@pytest.mark.usefixtures("unchanged")
def test_a_diff_alone_writes_nothing(ddpify: Ddpify) -> None:
    done = ddpify("convert", "train.py", "--diff")
    assert done.code == 0
    assert done.stdout.startswith("--- train.py\n+++ train.py\n@@ ")
    assert "\n+dd.init()\n" in done.stdout


def test_quiet_says_nothing(ddpify: Ddpify) -> None:
    write(SCRIPT)
    assert ddpify("convert", "train.py", "-o", "out.py", "-q") == Finished(0, "", "")


def test_overwriting_on_request(ddpify: Ddpify) -> None:
    write(SCRIPT)
    Path("out.py").write_text("x = 1\n")
    assert ddpify("convert", "train.py", "-o", "out.py", "--overwrite").code == 0
    assert b"dd.init()" in Path("out.py").read_bytes()


def test_in_place_gives_what_another_file_gets(ddpify: Ddpify) -> None:
    write(SCRIPT)
    assert ddpify("convert", "train.py", "-o", "out.py").code == 0
    assert ddpify("convert", "train.py", "--in-place").code == 0
    assert Path("train.py").read_bytes() == Path("out.py").read_bytes()


def test_standard_input_and_output(ddpify: Ddpify, monkeypatch: pytest.MonkeyPatch) -> None:
    write(SCRIPT)
    assert ddpify("convert", "train.py", "-o", "out.py").code == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SCRIPT)))
    done = ddpify("convert", "-", "-o", "-")
    assert done.code == 0
    assert done.stdout.encode() == Path("out.py").read_bytes()
    assert done.stderr.startswith("<stdin>: 4 changes\n")
    assert "torchrun" not in done.stderr


def test_line_endings_and_encoding_reach_standard_output(ddpify: Ddpify) -> None:
    head = b"# -*- coding: latin-1 -*-\r\n# caf\xe9\r\n"
    write(head + SCRIPT.replace(b"\n", b"\r\n"))
    done = subprocess.run(
        [sys.executable, "-m", "ddpify", "convert", "train.py", "-o", "-", "-q"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(head)
    assert done.stdout.count(b"\n") == done.stdout.count(b"\r\n")


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--batch", "local"], "'global'"),
        (["--mixed-precision", "float16"], "use bfloat16, or torch.autocast"),
        (["--strategy", "ddp2"], "'auto'"),
        (["--scale-lr", "linear"], "add --batch per-rank"),
        (["--batch", "per-rank", "--scale-lr", "cube"], "'sqrt'"),
        (["--sampler", "random"], "'exact'"),
    ],
)
def test_options_that_make_no_sense_are_2(ddpify: Ddpify, options: list[str], remedy: str) -> None:
    write(SCRIPT)
    done = ddpify("convert", "train.py", "-o", "out.py", *options)
    assert done.code == 2
    assert remedy in done.stderr
    assert not Path("out.py").exists()


@pytest.mark.parametrize("option", ["--no-sync-bn", "--no-sync-batchnorm"])
def test_batch_norm_of_each_rank(ddpify: Ddpify, option: str) -> None:
    write(SCRIPT)
    assert ddpify("convert", "train.py", "-o", "out.py", option).code == 0
    assert ", sync_batchnorm=False)" in Path("out.py").read_text()


def test_batches_of_each_rank_and_learning_rates_by_their_growth(ddpify: Ddpify) -> None:
    write(SCRIPT)
    options = ("--batch", "per-rank", "--scale-lr", "sqrt")
    assert ddpify("convert", "train.py", "-o", "out.py", *options).code == 0
    converted = Path("out.py").read_text()
    assert 'batch="per-rank"' in converted
    assert "dd.scale_lr(" in converted
    assert '"sqrt")' in converted


def test_ctrl_c_is_130_without_a_traceback(ddpify: Ddpify, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    write(SCRIPT)
    monkeypatch.setattr("ddpify.convert.command.convert_file", interrupted)
    done = ddpify("convert", "train.py", "-o", "out.py")
    assert done.code == 130
    assert "Traceback" not in done.stderr
    assert not Path("out.py").exists()


def test_no_arguments_show_the_help(ddpify: Ddpify) -> None:
    done = ddpify()
    assert done.code == 2
    assert "convert" in done.stdout + done.stderr


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_shows_choices_and_flags_as_such(ddpify: Ddpify, flag: str) -> None:
    done = ddpify("convert", flag)
    assert done.code == 0
    assert "ddp|fsdp|auto" in done.stdout and "<bool>" not in done.stdout
    assert "Models that do not fit on one GPU" in done.stdout


@pytest.mark.parametrize("command", ["convert", "launch", "verify"])
def test_help_has_no_types_of_python(command: str, ddpify: Ddpify) -> None:
    """An option that may be repeated takes a PATH, and no <list[Path]>."""
    assert "<list" not in ddpify(command, "-h").stdout


def test_underscores_in_options_are_dashes(ddpify: Ddpify) -> None:
    write(SCRIPT)
    done = ddpify("convert", "train.py", "-o", "out.py", "--snapshot_steps", "3", "--resume")
    assert done.code == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """As the shell asks: the commands that begin with what is typed, and the choices of options."""
    asked = {"COMP_WORDS": "ddpify convert --strategy ", "COMP_CWORD": "3"}
    asked |= {
        "_TYPER_COMPLETE_ARGS": asked["COMP_WORDS"],
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    env = {**os.environ, **asked, "_DDPIFY_COMPLETE": f"complete_{shell}"}
    command = [str(Path(sys.executable).with_name("ddpify"))]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "fsdp" in done.stdout, done.stderr
