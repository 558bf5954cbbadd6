"""The language server: what an editor asks, answered by lint and convert."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from ddpify import __version__
from ddpify.editor.actions import FIX_ALL, actions
from ddpify.editor.conversion import Converted, convert
from ddpify.editor.findings import Findings, find
from ddpify.editor.pages import page
from ddpify.editor.text import Text
from ddpify.errors import DdpifyError
from ddpify.lint.files.document import LAUNCH, kind_of

PAUSE_SECONDS = 0.1
"""How long nothing must be typed before a text is linted."""
CONVERT, DIFF = "ddpify.convert", "ddpify.diff"
_REWRITE = "refactor.rewrite.ddpify"


class Server(LanguageServer):
    """A server with what it has found in each open text."""

    def __init__(self) -> None:
        super().__init__("ddpify", __version__)
        self.findings: dict[str, Findings] = {}
        self.waiting: dict[str, asyncio.Task[None]] = {}
        self.complaint = ""
        # Understanding a script takes the processor for itself: one after the other.
        self.turn = asyncio.Lock()

    def look_at(self, uri: str, pause: float) -> None:
        """Lint an open text soon; what was to be found in an older version is not waited for."""
        self.forget(uri)
        self.waiting[uri] = asyncio.ensure_future(_look(self, uri, pause))

    def forget(self, uri: str) -> None:
        """No longer wait for what is to be found in a text."""
        task = self.waiting.pop(uri, None)
        if task is not None:
            task.cancel()

    def text(self, uri: str) -> Text:
        """An open text as it is now."""
        document = self.workspace.get_text_document(uri)
        return Text(document.source, document.position_codec.client_num_units)

    def say(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """Tell the person."""
        self.window_show_message(types.ShowMessageParams(kind, message))

    def complain(self, error: DdpifyError) -> None:
        """Tell the person what is wrong, once for the same."""
        text = _sentence(error)
        if text != self.complaint:
            self.complaint = text
            self.say(text, types.MessageType.Warning)


server = Server()


def serve() -> None:
    """Serve one editor on standard input and output until it says that it ends."""
    given, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what else is printed is no part of the protocol
    server.start_io(given, answers)


def _path(uri: str) -> Path | None:
    """The file that an editor means; None for a text that is in no file."""
    name = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(name) if name else None


async def _look(ls: Server, uri: str, pause: float) -> None:
    await asyncio.sleep(pause)
    path = _path(uri)
    if path is None:
        return
    async with ls.turn:
        version = ls.workspace.get_text_document(uri).version
        try:
            found = await asyncio.to_thread(find, path, ls.text(uri), version)
        except DdpifyError as error:
            ls.complain(error)
            return
    ls.findings[uri] = found
    ls.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(uri, found.shown(), version)
    )


def _current(ls: Server, uri: str) -> Findings | None:
    """What was found in the text as it is now; None where it has changed since."""
    found = ls.findings.get(uri)
    same = found is not None and found.text.source == ls.workspace.get_text_document(uri).source
    return found if same else None


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
async def _opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
    ls.look_at(params.text_document.uri, 0.0)


@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
async def _edited(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
    ls.look_at(params.text_document.uri, PAUSE_SECONDS)


@server.feature(types.TEXT_DOCUMENT_DID_SAVE)
async def _saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    """Other open files may import the one that was saved."""
    for uri in {params.text_document.uri, *ls.findings}:
        ls.look_at(uri, 0.0)


@server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
async def _closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    uri = params.text_document.uri
    ls.forget(uri)
    ls.findings.pop(uri, None)
    ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))


@server.feature(types.TEXT_DOCUMENT_HOVER)
async def _hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    found = _current(ls, params.text_document.uri)
    return page(found, params.position) if found else None


@server.feature(
    types.TEXT_DOCUMENT_CODE_ACTION,
    types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL, _REWRITE]),
)
async def _actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    found, path = _current(ls, uri), _path(uri)
    if found is None or path is None:
        return []

    def change(edits: Any) -> types.WorkspaceEdit:
        return types.WorkspaceEdit(changes={uri: list(edits)})

    python = kind_of(path) != LAUNCH
    offered = list(actions(found, params.range, change, python=python))
    if any(one.single for one in found.found):
        offered += _conversions(uri, path)
    wanted = params.context.only
    return [one for one in offered if not wanted or _is_of(_plain(one.kind), wanted)]


def _conversions(uri: str, path: Path) -> list[types.CodeAction]:
    titles = {
        CONVERT: f"ddpify: convert to {path.stem}_ddp.py for torchrun",
        DIFF: "ddpify: show what converting would change",
    }
    return [
        types.CodeAction(title, _REWRITE, command=types.Command(title, name, arguments=[uri]))
        for name, title in titles.items()
    ]


def _is_of(kind: str, wanted: Any) -> bool:
    """Whether a kind is one of those wanted, or below one: refactor.rewrite is below refactor."""
    return any(f"{kind}.".startswith(f"{_plain(one)}.") for one in wanted)


def _plain(kind: Any) -> str:
    """A kind as the protocol writes it."""
    return str(getattr(kind, "value", kind))


@server.command(DIFF)
async def _show_diff(ls: Server, uri: str) -> dict[str, str] | None:
    made = await _converted(ls, uri)
    if made is None:
        return None
    shown = Path(tempfile.mkdtemp(prefix="ddpify-")) / f"{made.output.name}.diff"
    shown.write_text(made.diff, "utf-8")
    await ls.window_show_document_async(
        types.ShowDocumentParams(from_fs_path(str(shown)) or "", take_focus=True)
    )
    return {"diff": made.diff, "output": str(made.output), "report": made.report}


@server.command(CONVERT)
async def _convert(ls: Server, uri: str) -> dict[str, str] | None:
    made = await _converted(ls, uri)
    if made is None:
        return None
    obstacle = _obstacle(ls, made)
    if obstacle:
        ls.say(obstacle, types.MessageType.Warning)
        return None
    await ls.workspace_apply_edit_async(
        types.ApplyWorkspaceEditParams(_new_file(ls, made), "ddpify: convert")
    )
    ls.say(made.summary)
    return {"diff": made.diff, "output": str(made.output), "report": made.report}


async def _converted(ls: Server, uri: str) -> Converted | None:
    """What comes of a script; None where the person was told why nothing does."""
    path, source = _path(uri), ls.workspace.get_text_document(uri).source
    try:
        if path is None:
            raise DdpifyError("the text is in no file", remedy="save it first")
        async with ls.turn:
            return await asyncio.to_thread(convert, path, source)
    except DdpifyError as error:
        ls.say(_sentence(error), types.MessageType.Error)
        return None


def _obstacle(ls: Server, made: Converted) -> str:
    """Why the editor cannot make the new file; "" where it can."""
    if made.output.exists():
        return f"{made.output} is there already: remove it, or run ddpify convert --overwrite"
    able = _edits_of(ls)
    if able is None or types.ResourceOperationKind.Create not in (able.resource_operations or ()):
        return f"this editor makes no files: run ddpify convert -o {made.output.name}"
    return ""


def _edits_of(ls: Server) -> types.WorkspaceEditClientCapabilities | None:
    """Which changes of files the editor can make."""
    workspace = ls.client_capabilities.workspace
    return workspace.workspace_edit if workspace else None


def _new_file(ls: Server, made: Converted) -> types.WorkspaceEdit:
    """The file with its text; an editor that can shows it first, and asks."""
    uri = from_fs_path(str(made.output)) or ""
    able = _edits_of(ls)
    asks = "convert" if able is not None and able.change_annotation_support else None
    start = types.Range(types.Position(0, 0), types.Position(0, 0))
    edit = (
        types.AnnotatedTextEdit(asks, start, made.text)
        if asks
        else types.TextEdit(start, made.text)
    )
    text = types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri), [edit])
    note = types.ChangeAnnotation("ddpify: convert", True, made.output.name)
    return types.WorkspaceEdit(
        document_changes=[types.CreateFile(uri, annotation_id=asks), text],
        change_annotations={asks: note} if asks else None,
    )


def _sentence(error: DdpifyError) -> str:
    """What went wrong where, and what would help."""
    place = f"{error.location}: " if error.location else ""
    return f"ddpify: {place}{error.message}" + (f" ({error.remedy})" if error.remedy else "")
