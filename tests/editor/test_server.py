"""``ddpify server`` with a real client: one session does what a person does in an editor."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="it is in the extra `editor`")

from lsprotocol import types

from ddpify.editor.actions import ignored
from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from tests.conftest import FIXTURES, Ddpify
from tests.editor.client import Editor, after, session

DISTRIBUTED = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
data = TensorDataset(torch.randn(40, 3), torch.randn(40, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler)
model = DistributedDataParallel(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()
name = "\U0001f600"; torch.save(model.module.state_dict(), "model.pt")
"""


def the(found: list[types.Diagnostic], code: str) -> types.Diagnostic:
    (one,) = [one for one in found if one.code == code]
    return one


def only(edit: types.WorkspaceEdit | None) -> list[types.TextEdit]:
    assert edit is not None and edit.changes is not None
    (edits,) = edit.changes.values()
    return list(edits)


def test_findings_fixes_comments_and_pages(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(DISTRIBUTED, "utf-8")

    async def use(editor: Editor) -> None:
        uri = await editor.open(path)
        found = await editor.found(1)
        epoch, write = the(found, "DDP102"), the(found, "DDP501")
        assert epoch.severity == types.DiagnosticSeverity.Error and "silent-wrong" in epoch.message
        assert epoch.source == "ddpify"
        # The emoji is one character, and two units of UTF-16.
        line = DISTRIBUTED.splitlines()[write.range.start.line]
        assert write.range.start.character == line.index("torch.save") + 1

        page = await editor.page(uri, epoch.range.start)
        assert "# missing-set-epoch (DDP102)" in page and "```python distributed" not in page

        actions = await editor.actions(uri, epoch.range)
        (fix,) = [one for title, one in actions.items() if title.startswith("DDP102: ")][:1]
        fixed = after(DISTRIBUTED, only(fix.edit))
        assert "sampler.set_epoch(epoch)" in fixed
        comment = (await editor.actions(uri, write.range))["DDP501: ignore write-on-all-ranks here"]
        both = after(DISTRIBUTED, only(comment.edit))
        assert both.splitlines()[write.range.start.line].endswith(
            '"model.pt")  # ddpify: ignore[DDP501]'
        )

        editor.replace(uri, 2, fixed)
        assert "DDP102" not in {one.code for one in await editor.found(2)}
        editor.replace(uri, 3, "x = 1\n")
        editor.replace(uri, 4, both)  # the version before is gone by before anybody looks at it
        left = await editor.found(4)
        assert "DDP501" not in {one.code for one in left} and the(left, "DDP102")
        line = both.splitlines()[write.range.start.line]
        assert "(DDP501)" in await editor.page(
            uri, types.Position(write.range.start.line, len(line))
        )
        assert await editor.page(uri, types.Position(0, 0)) == ""
        editor.replace(uri, 5, both + "def broken(:\n")
        assert the(await editor.found(5), "DDP000").range.start.line == len(both.splitlines())
        editor.text_document_did_close(
            types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri))
        )
        assert await editor.found(None) == []

    session(use)


@pytest.mark.parametrize("annotations", [True, False])
def test_a_file_is_converted(annotations: bool, ddpify: Ddpify, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    shutil.copy(FIXTURES / "batchnorm_cnn" / "train.py", path)
    expected = ddpify("convert", path, "-o", "-").stdout

    async def use(editor: Editor) -> None:
        uri = await editor.open(path)
        found = await editor.found(1)
        assert {one.severity for one in found} == {types.DiagnosticSeverity.Information}
        actions = await editor.actions(uri, found[0].range)
        for title, action in actions.items():
            if not title.startswith("ddpify: "):
                continue
            assert action.command is not None
            given = await editor.call(action.command.command, *action.command.arguments or ())
            assert given["output"] == str(tmp_path / "train_ddp.py")
        create, text = editor.applied[0].document_changes or ()
        assert isinstance(create, types.CreateFile) and create.uri.endswith("/train_ddp.py")
        assert isinstance(text, types.TextDocumentEdit)
        assert [getattr(one, "new_text", None) for one in text.edits] == [expected]
        assert (editor.applied[0].change_annotations is not None) == annotations
        (shown,) = editor.shown
        assert (
            "+from ddpify import runtime as dd\n" in Path(shown.removeprefix("file://")).read_text()
        )
        # What is in the editor alone is not converted, and what is there is not written over.
        (tmp_path / "train_ddp.py").write_text("mine")
        for version, said in ((2, "is there already"), (3, "save it first")):
            editor.replace(uri, version, path.read_text() + "\n" * (version - 2))
            assert await editor.call("ddpify.convert", uri) is None
            assert said in editor.messages[-1]

    session(use, annotations=annotations)


@pytest.mark.parametrize(
    ("line", "silenced"),
    [
        (
            'torch.save(model.module.state_dict(), "model.pt")',
            '"model.pt")  # ddpify: ignore[DDP501]',
        ),
        (
            'torch.save(model.module.state_dict(), """model\nx.pt""")',
            'torch.save(model.module.state_dict(), """model\nx.pt""")  # ddpify: ignore[DDP501]',
        ),
        (
            'if name: \\\n    torch.save(model.module.state_dict(), \\\n    "model.pt")',
            '    "model.pt")  # ddpify: ignore[DDP501]',
        ),
        (
            'torch.save(model.module.state_dict(), "m")  # ddpify: ignore[DDP503]',
            "# ddpify: ignore[DDP503, DDP501]",
        ),
        ('torch.save(model.module.state_dict(), "m")  # why', "# why  # ddpify: ignore[DDP501]"),
    ],
)
def test_comments_stand_where_they_can(line: str, silenced: str, tmp_path: Path) -> None:
    source = DISTRIBUTED[: DISTRIBUTED.rindex("name =")] + f"name = 'x'\n{line}\n"
    settings = Settings(select=("DDP501",))
    (one,) = lint(Document(str(tmp_path / "a.py"), source.encode()), settings).found
    edit = ignored(source, one)
    assert edit is not None
    text = source[: edit.start] + edit.text + source[edit.end :]
    assert silenced in text
    assert lint(Document(str(tmp_path / "a.py"), text.encode()), settings).found == ()


def test_without_pygls_the_extra_is_named(ddpify: Ddpify, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ddpify.editor.server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    done = ddpify("server")
    assert done.code == 2 and "pip install 'ddpify[editor]'" in done.stderr


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_neovim_attaches_sees_findings_and_applies_a_fix(tmp_path: Path) -> None:
    path, report = tmp_path / "train.py", tmp_path / "report"
    path.write_text(DISTRIBUTED, "utf-8")
    env = {**os.environ, "PYTHONPATH": str(FIXTURES.parent), "REPORT": str(report)}
    lua = Path(__file__).with_name("attach.lua")
    done = subprocess.run(
        ["nvim", "--headless", "--clean", str(path), "-c", f"luafile {lua}", "-c", "quitall!"],
        env={**env, "DDPIFY_COMMAND": sys.executable},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert report.exists(), done.stderr
    before, left = (line.split() for line in report.read_text().splitlines())
    assert set(before) - set(left) == {"DDP102"}
    assert "    sampler.set_epoch(epoch)\n" in path.read_text("utf-8")
