"""Make ``docs/terminal.svg``, the picture of the README: ``python docs/recording.py``.

Runs the commands that it shows in a folder with a copy of a bundled script, and draws what they
print; of ``verify`` without its progress.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COMMANDS = (
    "ddpify lint train.py",
    "ddpify convert train.py -o train_ddp.py",
    "ddpify verify train.py train_ddp.py --nproc 3",
)
WIDTH = 100
# Rich's picture without fonts that are loaded from elsewhere.
PICTURE = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: monospace; font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def main() -> None:
    """Run the commands and write the picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "fixtures/global_script/train.py", folder)
        for command in COMMANDS:
            console.print(Text(f"$ {command}", style="bold"))
            for line in AnsiDecoder().decode(_output(command, folder)):
                console.print(line)
    picture = console.export_svg(title="ddpify", code_format=PICTURE, unique_id="ddpify")
    (ROOT / "docs/terminal.svg").write_text(picture, "utf-8")


def _output(command: str, folder: str) -> str:
    environment = {**os.environ, "COLUMNS": str(WIDTH), "FORCE_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if "verify" in command else subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


if __name__ == "__main__":
    main()
