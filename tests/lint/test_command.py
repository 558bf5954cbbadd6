"""The command: exit codes, selection, suppression, fixes, formats, baseline, configuration."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import asdict
from pathlib import Path

import pytest

from ddpify import cli
from ddpify.lint import lint_options
from ddpify.lint.cache import digest_of
from tests.conftest import Ddpify
from tests.lint.setups import SETUPS

BAD = SETUPS["distributed"] + 'torch.save(net.state_dict(), "model.pt")\n'
CLEAN = SETUPS["distributed"]


def python(*arguments: str, cwd: Path, seed: str = "0") -> subprocess.CompletedProcess[str]:
    """A Python process of its own that finds ddpify as this one does."""
    env = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": seed}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, check=False)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(BAD)
    return path


def test_exit_codes(script: Path, ddpify: Ddpify) -> None:
    assert ddpify("lint", script).code == 1
    assert ddpify("lint", script, "--exit-zero").code == 0
    assert ddpify("lint", script, "--ignore", "DDP501").code == 0
    assert ddpify("lint", script, "--select", "no-such-rule").code == 2
    assert ddpify("lint", "nowhere.py").code == 2
    assert ddpify("lint", script, "--output-format", "xml").code == 2


def test_a_reader_that_goes_away(script: Path) -> None:
    """``ddpify lint | head``: no traceback."""
    command = [sys.executable, "-m", "ddpify", "lint", "--no-cache", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize("arguments", [("lint", "train.py", "--no-cache"), ("--version",)])
def test_modules_of_the_working_directory_are_not_imported(
    script: Path, arguments: tuple[str, ...]
) -> None:
    for name in ("libcst", "typer", "rich"):
        (script.parent / f"{name}.py").write_text("raise SystemExit('imported')\n")
    done = subprocess.run(
        [sys.executable, "-m", "ddpify", *arguments], cwd=script.parent, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert "imported" not in done.stdout + done.stderr
    assert done.stdout


def test_no_files_is_no_error(tmp_path: Path, ddpify: Ddpify) -> None:
    assert ddpify("lint", tmp_path).code == 0


@pytest.mark.parametrize("selector", ["DDP501", "write-on-all-ranks", "DDP5", "ALL", "ddp501"])
def test_selectors(script: Path, ddpify: Ddpify, selector: str) -> None:
    assert "DDP501" in ddpify("lint", script, "--select", selector).stdout
    assert ddpify("lint", script, "--select", "DDP501", "--ignore", selector).code in (0, 1)


def test_a_longer_selector_wins(script: Path, ddpify: Ddpify) -> None:
    assert ddpify("lint", script, "--select", "DDP501", "--ignore", "DDP5").code == 1
    assert ddpify("lint", script, "--select", "DDP5", "--ignore", "DDP501").code == 0


@pytest.mark.parametrize(
    "comment",
    [
        "ddpify: ignore[DDP501]",
        "ddpify: ignore[write-on-all-ranks]",
        "ddpify: ignore",
        "noqa: DDP501",
        "noqa: F401, DDP501",
    ],
)
def test_trailing_suppression(script: Path, ddpify: Ddpify, comment: str) -> None:
    script.write_text(BAD.rstrip("\n") + f"  # {comment}\n")
    assert ddpify("lint", script).code == 0


def test_suppression_from_the_line_above_and_for_the_file(script: Path, ddpify: Ddpify) -> None:
    line = 'torch.save(net.state_dict(), "model.pt")\n'
    script.write_text(CLEAN + "# ddpify: ignore[DDP501]\n" + line)
    assert ddpify("lint", script).code == 0
    script.write_text("# ddpify: file-ignore[write-on-all-ranks]\n" + BAD)
    assert ddpify("lint", script).code == 0


def test_a_comment_in_a_string_silences_nothing(script: Path, ddpify: Ddpify) -> None:
    text = CLEAN + 'torch.save(net.state_dict(), "m.pt  # ddpify: ignore[DDP501]")\n'
    script.write_text(text)
    assert ddpify("lint", script).code == 1


def test_unused_suppressions_are_found_and_removed(script: Path, ddpify: Ddpify) -> None:
    script.write_text(CLEAN + "x = 1  # ddpify: ignore[DDP501]\n# ddpify: ignore[DDP102]\ny = 2\n")
    done = ddpify("lint", script, "--output-format", "concise")
    assert done.stdout.count("DDP001") == 2
    assert ddpify("lint", script, "--fix").code == 0
    assert script.read_text() == CLEAN + "x = 1\ny = 2\n"


def test_fix_and_diff(script: Path, ddpify: Ddpify) -> None:
    shown = ddpify("lint", script, "--diff")
    assert shown.code == 1
    assert "+if dist.get_rank() == 0:" in shown.stdout
    assert script.read_text() == BAD
    assert ddpify("lint", script, "--fix").code == 0
    assert script.read_text().endswith(
        'if dist.get_rank() == 0:\n    torch.save(net.state_dict(), "model.pt")\n'
    )


def test_unsafe_fixes_are_asked_for(script: Path, ddpify: Ddpify) -> None:
    script.write_text(CLEAN + "train, val = random_split(dataset, [80, 20])\n")
    assert ddpify("lint", script, "--fix").code == 1
    assert ddpify("lint", script, "--fix", "--unsafe-fixes").code == 0
    assert "manual_seed(0)" in script.read_text()


def test_fixes_keep_line_endings_and_encoding(script: Path, ddpify: Ddpify) -> None:
    text = "# -*- coding: latin-1 -*-\n# é\n" + BAD
    script.write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
    assert ddpify("lint", script, "--fix").code == 0
    data = script.read_bytes()
    assert b"\xe9\r\n" in data
    assert data.count(b"\n") == data.count(b"\r\n")


def test_json(script: Path, ddpify: Ddpify) -> None:
    (one,) = json.loads(ddpify("lint", script, "--output-format", "json").stdout)
    assert one["code"] == "DDP501" and one["name"] == "write-on-all-ranks"
    assert one["location"]["row"] == BAD.count("\n")
    edit = one["fix"]["edits"][0]
    fixed = BAD[: edit["start"]] + edit["content"] + BAD[edit["end"] :]
    compile(fixed, "fixed.py", "exec")
    assert one["context"] == "distributed"


def test_sarif(script: Path, ddpify: Ddpify) -> None:
    log = json.loads(ddpify("lint", script, "--output-format", "sarif").stdout)
    (run,) = log["runs"]
    assert log["version"] == "2.1.0" and run["tool"]["driver"]["rules"][0]["id"] == "DDP501"
    (result,) = run["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == BAD.count("\n")
    assert result["fixes"]


def test_gitlab_fingerprints_do_not_depend_on_lines(script: Path, ddpify: Ddpify) -> None:
    (first,) = json.loads(ddpify("lint", script, "--output-format", "gitlab").stdout)
    script.write_text("\n\n" + BAD)
    (second,) = json.loads(ddpify("lint", script, "--output-format", "gitlab").stdout)
    assert first["fingerprint"] == second["fingerprint"]
    assert first["location"] != second["location"]


def test_junit_and_github(script: Path, ddpify: Ddpify) -> None:
    root = ET.fromstring(ddpify("lint", script, "--output-format", "junit").stdout)
    assert root.get("failures") == "1"
    line = ddpify("lint", script, "--output-format", "github").stdout
    assert line.startswith("::error title=ddpify DDP501") and f"line={BAD.count(chr(10))}" in line


def test_full_shows_the_place(script: Path, ddpify: Ddpify) -> None:
    out = ddpify("lint", script).stdout
    assert "DDP501 write-on-all-ranks [silent-wrong, likely]:" in out
    assert "^^^^" in out and "--fix" in out


def test_single_process_scripts_get_one_list(script: Path, ddpify: Ddpify) -> None:
    script.write_text(SETUPS["single"] + 'torch.save(model.state_dict(), "m.pt")\n')
    done = ddpify("lint", script)
    assert done.code == 1
    assert "trains in one process" in done.stdout and "`ddpify convert`" in done.stdout


def test_statistics(script: Path, ddpify: Ddpify) -> None:
    assert ddpify("lint", script, "--statistics").stdout == "1  DDP501  write-on-all-ranks\n"


def test_baseline(script: Path, ddpify: Ddpify) -> None:
    assert ddpify("lint", script, "--baseline", "known.json").code == 2
    assert ddpify("lint", script, "--baseline", "known.json", "--write-baseline").code == 0
    assert ddpify("lint", script, "--baseline", "known.json").code == 0
    script.write_text("\n\n" + BAD)
    assert ddpify("lint", script, "--baseline", "known.json").code == 0
    script.write_text(BAD + 'torch.save(net.state_dict(), "other.pt")\n')
    assert ddpify("lint", script, "--baseline", "known.json").code == 1


def test_standard_input(script: Path, ddpify: Ddpify, monkeypatch: pytest.MonkeyPatch) -> None:
    class Standard:
        buffer = io.BytesIO(BAD.encode())

    monkeypatch.setattr(sys, "stdin", Standard)
    done = ddpify("lint", "-", "--stdin-filename", "x/train.py", "--output-format", "concise")
    assert done.code == 1 and done.stdout.startswith("x/train.py:")


def test_configuration(script: Path, ddpify: Ddpify) -> None:
    pyproject = script.parent / "pyproject.toml"
    pyproject.write_text('[tool.ddpify]\nignore = ["write-on-all-ranks"]\n')
    assert ddpify("lint", script).code == 0
    pyproject.write_text('[tool.ddpify.per-file-ignores]\n"train.py" = ["DDP5"]\n')
    assert ddpify("lint", script).code == 0
    pyproject.write_text('[tool.ddpify]\nextend-exclude = ["train.py"]\n')
    assert ddpify("lint", script.parent).code == 0
    assert ddpify("lint", script).code == 1  # it is named
    assert ddpify("lint", script, "--force-exclude").code == 0


@pytest.mark.parametrize(
    "text", ['colour = "red"', 'select = "DDP"', 'select = ["XYZ1"]', "strict = 3"]
)
def test_wrong_configuration(script: Path, ddpify: Ddpify, text: str) -> None:
    (script.parent / "pyproject.toml").write_text(f"[tool.ddpify]\n{text}\n")
    done = ddpify("lint", script)
    assert done.code == 2 and ("pyproject.toml" in done.stderr or "no rule" in done.stderr)


def test_gitignore(script: Path, ddpify: Ddpify) -> None:
    (script.parent / ".gitignore").write_text("*.py\n!keep.py\n")
    assert ddpify("lint", script.parent).code == 0
    (script.parent / "keep.py").write_text(BAD)
    done = ddpify("lint", script.parent, "--output-format", "concise")
    assert "keep.py" in done.stdout and "train.py" not in done.stdout


def test_syntax_errors_are_findings_and_the_rest_goes_on(script: Path, ddpify: Ddpify) -> None:
    (script.parent / "broken.py").write_text("import torch\ndef f(:\n")
    done = ddpify("lint", script.parent, "--output-format", "concise")
    assert done.code == 1 and "broken.py:2" in done.stdout and "DDP501" in done.stdout


def test_notebooks(script: Path, ddpify: Ddpify) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# text"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", *CLEAN.splitlines(keepends=True)]},
        {"cell_type": "code", "source": 'torch.save(net.state_dict(), "m.pt")'},
        {"cell_type": "code", "source": "!ls"},
    ]
    path = script.with_name("a.ipynb")
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    done = ddpify("lint", path, "--output-format", "concise")
    assert "a.ipynb:cell 3:1:1: DDP501" in done.stdout
    done = ddpify("lint", path)
    assert """1 | torch.save(net.state_dict(), "m.pt")\n  | ^""" in done.stdout


def test_findings_of_a_notebook_are_in_the_order_of_its_cells(script: Path, ddpify: Ddpify) -> None:
    save = "torch.save(net.state_dict(), 'm.pt')"
    sources = [CLEAN, f"\n\n\n{save}", save]
    path = script.with_name("a.ipynb")
    path.write_text(
        json.dumps({"cells": [{"cell_type": "code", "source": one} for one in sources]})
    )
    done = ddpify("lint", path, "--output-format", "concise")
    assert done.stdout.index("cell 2:4:1") < done.stdout.index("cell 3:1:1")


def test_launch_files(script: Path, ddpify: Ddpify) -> None:
    path = script.with_name("run.sh")
    path.write_text(
        "#!/bin/bash\npython -m torch.distributed.launch --use-env --nproc_per_node=2 t.py\n"
    )
    assert ddpify("lint", path).code == 1
    assert ddpify("lint", path, "--fix").code == 0
    assert path.read_text() == "#!/bin/bash\ntorchrun --nproc_per_node=2 t.py\n"


def test_the_cache_follows_the_files_that_are_imported(script: Path, ddpify: Ddpify) -> None:
    helper = script.with_name("helper.py")
    helper.write_text("def may_save():\n    return True\n")
    script.write_text(
        CLEAN
        + "from helper import may_save\nif may_save():\n    torch.save(net.state_dict(), 'm.pt')\n"
    )
    for _ in range(2):
        assert ddpify("lint", script).code == 1
    helper.write_text(
        "import torch.distributed as dist\ndef may_save():\n    return dist.get_rank() == 0\n"
    )
    assert ddpify("lint", script).code == 0


def test_the_cache_follows_the_code_of_all_packages(tmp_path: Path) -> None:
    deep = tmp_path / "understanding" / "labels" / "flow.py"
    deep.parent.mkdir(parents=True)
    deep.write_text("LABELS = 1\n")
    before = digest_of(tmp_path)
    deep.write_text("LABELS = 12\n")
    assert digest_of(tmp_path) != before


def test_rule_pages(ddpify: Ddpify) -> None:
    by_code, by_name = ddpify("rule", "ddp102"), ddpify("rule", "missing-set-epoch")
    assert by_code.stdout == by_name.stdout and "## Why is this bad" in by_code.stdout
    assert ddpify("rule", "DDP102", "--output-format", "json").code == 0
    assert "DDPF01" in ddpify("rule", "--all").stdout
    assert ddpify("rule", "nothing").code == 2


def test_start_up_is_light(script: Path) -> None:
    script.write_text("print('no framework here')\n")
    code = (
        "import sys; from ddpify.start import main; main(['lint', 'train.py', '--no-cache']);"
        " print([m for m in ('torch', 'black', 'libcst', 'rich') if m in sys.modules])"
    )
    assert python("-c", code, cwd=script.parent).stdout.splitlines()[-1] == "[]"


def test_rules_import_no_matchers(script: Path) -> None:
    code = (
        "import sys; from ddpify.start import main; main(['lint', 'train.py', '--no-cache']);"
        " names = ('torch', 'black', 'libcst.matchers', 'libcst.codemod', 'typer', 'hashlib',"
        " 'tempfile', 'difflib', 'ddpify.planning');"
        " print([m for m in names if m in sys.modules])"
    )
    assert python("-c", code, cwd=script.parent).stdout.splitlines()[-1] == "[]"


def test_light_nodes_are_those_of_a_process_that_lints(script: Path) -> None:
    try_it = "import libcst; libcst.Name('x').value = 'y'; print(hash(libcst.Name('x')) != 0)"
    frozen = python("-c", f"import ddpify.lint.command; {try_it}", cwd=script.parent)
    assert "FrozenInstanceError" in frozen.stderr
    light = "from ddpify.lint import light_libcst; light_libcst.install()"
    assert python("-c", f"{light}; {try_it}", cwd=script.parent).stdout == "True\n"


def test_light_nodes_render_as_others_do(script: Path) -> None:
    text = SETUPS["single"] + "match 1, *[2]:\n    case (a, *b) if a: print(f'{a!r:>3}', *b)\n"
    script.write_text(text)
    code = (
        "from ddpify.lint import light_libcst; light_libcst.install(); import libcst;"
        " print(libcst.parse_module(open('train.py').read()).code, end='')"
    )
    assert python("-c", code, cwd=script.parent).stdout == text


def test_light_nodes_change_no_finding(script: Path, ddpify: Ddpify) -> None:
    for setup in SETUPS.values():
        script.write_text(setup + 'torch.save({}, "m.pt")\nprint(torch.rand(3))\n')
        arguments = ("lint", "train.py", "--no-cache", "--output-format", "json")
        light = python("-m", "ddpify", *arguments, cwd=script.parent).stdout
        assert light.strip() == ddpify(*arguments).stdout.strip() != ""


def test_light_nodes_serve_more_than_one_file(script: Path) -> None:
    script.write_text(SETUPS["distributed"] + 'torch.save({}, "m.pt")\n')
    (script.parent / "other.py").write_text(script.read_text())
    arguments = ("-m", "ddpify", "lint", ".", "--no-cache", "--output-format", "concise")
    done = python(*arguments, cwd=script.parent)
    assert [line.split(":")[0] for line in done.stdout.splitlines() if "DDP501" in line] == [
        "other.py",
        "train.py",
    ]
    assert "not analysed" not in done.stderr


def test_what_was_not_analysed_has_not_passed(
    script: Path, ddpify: Ddpify, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr("ddpify.lint.checking._check", fail)
    done = ddpify("lint", script, "--no-cache")
    assert done.code == 2 and "passed" not in done.stdout and "not all" in done.stdout


@pytest.mark.parametrize("seed", ["0", "1", "42"])
def test_hash_seeds_change_nothing(script: Path, seed: str) -> None:
    script.write_text(SETUPS["single"] + 'torch.save(model.state_dict(), "m.pt")\n')
    arguments = ("-m", "ddpify", "lint", str(script), "--no-cache", "--output-format", "json")
    outputs = {python(*arguments, cwd=script.parent, seed=one).stdout for one in ("7", seed)}
    assert len(outputs) == 1 and "DDP501" in outputs.pop()


@pytest.mark.parametrize(
    "line",
    [
        "a.py b --select DDP1,DDP2 --select=DDP3 -q --jobs 2 -o out.txt --output-format json",
        "- --stdin-filename a.py --fix --unsafe-fixes --diff --strict --exit-zero --no-cache",
        "--baseline known.json --write-baseline --force-exclude --statistics --config p.toml -j 3",
        "--ignore x --extend-select y --exclude z --extend-exclude w",
    ],
)
def test_plain_command_lines_mean_the_same_to_typer(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[Path], lint_options.Options]] = []

    def note(paths: list[Path], given: lint_options.Options) -> int:
        seen.append((paths, given))
        return 0

    monkeypatch.setattr("ddpify.lint.command.run", note)
    read = lint_options.read(line.split())
    assert read is not None and cli.main(["lint", *line.split()]) == 0
    paths, given = seen[0]
    as_tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in asdict(given).items()}
    assert (paths, as_tuples) == (read[0], asdict(read[1]))


@pytest.mark.parametrize(
    "line", ["--help", "--unknown", "--jobs", "--jobs x", "-qx", "--fix=1", "-- a.py", "-o=x"]
)
def test_other_command_lines_are_left_to_typer(line: str) -> None:
    assert lint_options.read(line.split()) is None


def test_async_as_an_argument_is_found_and_mended(tmp_path: Path, ddpify: Ddpify) -> None:
    script = tmp_path / "old.py"
    script.write_text("import torch\n\nx = torch.ones(2)\ny, z = x.cuda(async=True), x.cpu()\n")
    done = ddpify("lint", script)
    assert done.code == 1
    assert "DDP000" in done.stdout
    assert "old.py:4:15" in done.stdout
    ddpify("lint", "--fix", script)
    assert "y, z = x.cuda(non_blocking=True), x.cpu()\n" in script.read_text()


def test_what_is_no_python_without_async_has_one_finding(tmp_path: Path, ddpify: Ddpify) -> None:
    script = tmp_path / "old.py"
    script.write_text("import torch\nx = torch.ones(2).cuda(async=True)\nprint 'x'\n")
    done = ddpify("lint", "--output-format", "concise", script)
    assert done.stdout.count("DDP000") == 1
    assert ddpify("lint", "--fix", script).code == 1
    assert "async=True" in script.read_text()


def test_a_training_whose_backward_a_package_calls(tmp_path: Path, ddpify: Ddpify) -> None:
    (tmp_path / "engine.py").write_text(
        "import torch\n\n\ndef train(model, batches, optimizer, scaler):\n"
        "    for x in batches:\n        scaler(model(x).mean(), optimizer)\n"
        "        if torch.distributed.get_rank() == 0:\n            torch.distributed.barrier()\n"
    )
    (tmp_path / "main.py").write_text(
        "import torch\nfrom scaling import Scaler\nfrom engine import train\n\n\ndef main():\n"
        "    torch.distributed.init_process_group('gloo')\n"
        "    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    train(model, [torch.ones(3, 2)], optimizer, Scaler())\n\n\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    done = ddpify("lint", "--output-format", "concise", tmp_path)
    assert "engine.py:8:13: DDP401" in done.stdout
