"""Pages of the site that are made of the code: each rule's, and the help of all commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

from mkdocs.structure.files import File, Files

from ddpify.codes import CODES
from ddpify.lint.explain import explain

COMMANDS = "convert verify check lint rule run launch doctor profile plan env server".split()


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages to those that are written."""
    rows = [f"| [{code}]({code}.md) | {name} |" for code, name in sorted(CODES.items())]
    index = "\n".join(["# All rules", "", "| code | name |", "|---|---|", *rows, ""])
    files.append(File.generated(config, "reference/rules/index.md", content=index))
    for code in CODES:
        uri = f"reference/rules/{code}.md"
        files.append(File.generated(config, uri, content=_readable(explain(code))))
    files.append(File.generated(config, "reference/help.md", content=_help()))
    return files


def _readable(page: str) -> str:
    """Examples without the word for their set-up, and addresses as links."""
    page = re.sub(r"^```(\w+) \w+$", r"```\1", page, flags=re.M)
    return re.sub(r"(?<![(<`\"'])(https://[^\s)>]+)", r"<\1>", page)


def _help() -> str:
    parts = ["# The help of each command"]
    for name in COMMANDS:
        command = [sys.executable, "-m", "ddpify", name, "--help"]
        env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        parts += [f"## ddpify {name}", f"```text\n{done.stdout.strip()}\n```"]
    return "\n\n".join(parts) + "\n"
