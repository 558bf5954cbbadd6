"""An editor: pygls's client, which starts ``ddpify server`` and speaks to it over its pipes."""

from __future__ import annotations

import ast
import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.uris import from_fs_path

SECONDS = 120.0
T = TypeVar("T")


class Editor(LanguageClient):
    """A client that keeps what the server says, and makes the changes that it asks for."""

    def __init__(self) -> None:
        super().__init__("tests", "1")
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: list[str] = []
        self.applied: list[types.WorkspaceEdit] = []
        self.shown: list[str] = []
        # pygls marks what it is given, which a bound method does not allow.
        answers: dict[str, Callable[[Any], Any]] = {
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: lambda given: self.published.put_nowait(given),
            types.WINDOW_SHOW_MESSAGE: lambda given: self._message(given),
            types.WORKSPACE_APPLY_EDIT: lambda given: self._apply(given),
            types.WINDOW_SHOW_DOCUMENT: lambda given: self._show(given),
        }
        for name, answer in answers.items():
            self.feature(name)(answer)

    def _message(self, params: types.ShowMessageParams) -> None:
        self.messages.append(params.message)

    def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.applied.append(params.edit)
        return types.ApplyWorkspaceEditResult(True)

    def _show(self, params: types.ShowDocumentParams) -> types.ShowDocumentResult:
        self.shown.append(params.uri)
        return types.ShowDocumentResult(True)

    async def open(self, path: Path) -> str:
        """Open a file; its URI."""
        uri = from_fs_path(str(path)) or ""
        item = types.TextDocumentItem(uri, types.LanguageKind.Python, 1, path.read_text("utf-8"))
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def replace(self, uri: str, version: int, text: str) -> None:
        """Put another text in place of all."""
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(version, uri),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def found(self, version: int | None) -> list[types.Diagnostic]:
        """What the server publishes about a version."""
        while True:
            params = await asyncio.wait_for(self.published.get(), SECONDS)
            if params.version == version:
                return list(params.diagnostics)

    async def page(self, uri: str, place: types.Position) -> str:
        """What is shown where the pointer rests, as Markdown; "" for nothing."""
        params = types.HoverParams(types.TextDocumentIdentifier(uri), place)
        found = await self.text_document_hover_async(params)
        if found is None:
            return ""
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    async def call(self, command: str, *arguments: object) -> Any:
        """Let the server carry out a command."""
        params = types.ExecuteCommandParams(command, list(arguments))
        return await self.workspace_execute_command_async(params)

    async def actions(self, uri: str, wanted: types.Range) -> dict[str, types.CodeAction]:
        """What can be done there, by title."""
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(uri), wanted, types.CodeActionContext([])
        )
        given = await self.text_document_code_action_async(params)
        return {one.title: _action(one) for one in given or ()}


def _action(one: types.CodeAction | types.Command) -> types.CodeAction:
    """lsprotocol reads an action that has a command as if it were one, with the text of a dict."""
    if isinstance(one, types.CodeAction):
        return one
    return types.CodeAction(one.title, command=types.Command(**ast.literal_eval(one.command)))


def session(use: Callable[[Editor], Awaitable[T]], *, annotations: bool = True) -> T:
    """Start a server, let ``use`` be its editor, and end it as an editor does."""
    return asyncio.run(_session(use, annotations))


async def _session(use: Callable[[Editor], Awaitable[T]], annotations: bool) -> T:
    editor = Editor()
    await editor.start_io(sys.executable, "-m", "ddpify", "server")
    support = types.ChangeAnnotationsSupportOptions() if annotations else None
    edits = types.WorkspaceEditClientCapabilities(
        document_changes=True,
        resource_operations=[types.ResourceOperationKind.Create],
        change_annotation_support=support,
    )
    able = types.ClientCapabilities(types.WorkspaceClientCapabilities(workspace_edit=edits))
    try:
        await asyncio.wait_for(
            editor.initialize_async(types.InitializeParams(capabilities=able)), SECONDS
        )
        editor.initialized(types.InitializedParams())
        return await asyncio.wait_for(use(editor), SECONDS)
    finally:
        await asyncio.wait_for(editor.shutdown_async(None), SECONDS)
        editor.exit(None)
        await editor.stop()  # type: ignore[no-untyped-call]


def after(text: str, edits: list[types.TextEdit]) -> str:
    """A text after an editor's changes, with columns in units of UTF-16."""
    lines = text.splitlines(keepends=True)
    for edit in sorted(edits, key=lambda one: (one.range.start.line, one.range.start.character))[
        ::-1
    ]:
        begin, end = (_offset(lines, place) for place in (edit.range.start, edit.range.end))
        text = text[:begin] + edit.new_text + text[end:]
    return text


def _offset(lines: list[str], place: types.Position) -> int:
    line = lines[place.line] if place.line < len(lines) else ""
    column = len(line.encode("utf-16-le")[: 2 * place.character].decode("utf-16-le"))
    return sum(map(len, lines[: place.line])) + column
