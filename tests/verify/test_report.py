"""The page and the JSON of a verdict."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from ddpify.verify import Cause, Comparison, Difference, Kind, Verdict, What, as_html, as_json
from ddpify.verify.report import heatmap, sidebyside
from ddpify.verify.verdict import Check, Coverage, Series

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
STEPS = 200


def verdict(parameters: int = 160) -> Verdict:
    """A verdict with everything in it, at the largest size."""
    losses: list[float | None] = [2.0 / (1 + at / 20) for at in range(STEPS)]
    shifted = [None if loss is None else loss + 1e-9 for loss in losses]
    series = Series(
        names=[f"layers.{at}.weight" for at in range(parameters)],
        original=losses,
        converted=shifted,
        reference=losses,
        divergence=[[10.0 ** (at % 30 - 20) for at in range(STEPS)] for _ in range(parameters)],
        limit=1e-9,
    )
    cause = Cause("the <model> is not wrapped", "wrap it", ("DDP303",), "batchnorm")
    found = Difference(What.GRADIENT, "differs", 3, "a<b", 0.5, 1e-9, 1, cause, "train.py:7")
    comparison = Comparison(
        2,
        Kind.EXCEPT,
        same_data=True,
        same_arithmetic=False,
        checks=[Check("gradients", False, "largest <1>")],
        differences=[found],
        coverage=[Coverage(100, 1, 0, [50, 49], everywhere=False)] * 30,
        series=series,
    )
    text = "".join(f"line {at} <tag>\n" for at in range(900))
    sources = (("train.py", text), ("train_ddp.py", text.replace("line 500", "line D")))
    return Verdict(
        "train.py", "train_ddp.py", [comparison], Kind.EXCEPT, None, STEPS, sources=sources
    )


def test_page_is_one_file_of_less_than_a_megabyte() -> None:
    page = as_html(verdict())
    assert len(page.encode()) < 1_000_000
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?!data:)[\w/.:]+", page)
    assert "url(" not in page
    assert not re.findall(r"<link|@import|<script src|<img src=.?http", page)


def test_page_escapes_and_shows() -> None:
    page = as_html(verdict())
    assert "<model>" not in page
    assert "&lt;model&gt;" in page
    for text in ("Equivalent except batchnorm", "DDP303", "train.py:7", "same arithmetic?"):
        assert text in page


def test_page_of_an_empty_verdict() -> None:
    page = as_html(Verdict("a.py", "", [], Kind.COULD_NOT_RUN, "no <luck>"))
    assert "no &lt;luck&gt;" in page


def test_json_has_the_differences() -> None:
    data = json.loads(as_json(verdict()))
    assert data["verdict"] == "equivalent except"
    assert data["exit_code"] == 1
    found = data["comparisons"][0]["differences"][0]
    assert (found["what"], found["step"], found["cause"]["rules"]) == ("gradient", 3, ["DDP303"])


def test_heat_map_is_a_picture_of_one_pixel_a_value() -> None:
    uri = heatmap.png([[0.0, 1e-12, None], [1.0, float("nan"), 1e-9]], 1e-9)
    data = base64.b64decode(uri.partition(",")[2])
    assert data.startswith(b"\x89PNG")
    assert data[16:24] == b"\0\0\0\x03\0\0\0\x02"
    start = data.index(b"IDAT")
    size = int.from_bytes(data[start - 4 : start], "big")
    pixels = zlib.decompress(data[start + 4 : start + 4 + size])
    assert list(pixels) == [0, 0, 8, heatmap.MISSING, 0, 32, heatmap.LEVELS, 14]


def test_side_by_side_pairs_and_marks() -> None:
    text = sidebyside.table("same\nloss = f(x)\n", "same\nloss = dd.mean(f(x))\nnew\n")
    assert "<mark>dd.mean(</mark>" in text
    assert text.count("<tr>") == 3


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_page_in_a_browser(tmp_path: Path) -> None:
    """It is laid out, its script runs without an error, and it fetches nothing."""
    page, log = tmp_path / "report.html", tmp_path / "errors"
    probe = (
        "<script>addEventListener('error', e => document.title = 'ERROR ' + e.message);"
        "addEventListener('load', () => { const heat = document.querySelector('.heat img');"
        "const box = heat.getBoundingClientRect();"
        "heat.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + 2, "
        "clientY: box.top + 2}));"
        "const wide = document.documentElement.scrollWidth <= innerWidth;"
        "document.body.dataset.probe = [Math.round(box.height) > 100, wide, "
        "performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length,"
        "document.querySelector('.under').textContent].join('|'); });</script>"
    )
    page.write_text(as_html(verdict()).replace("<head>", "<head>" + probe))
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=3000",
        "--dump-dom",
        page.as_uri(),
    ]
    with log.open("w") as errors:
        shown = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=300, check=True
        ).stdout
    assert "<title>ERROR" not in shown
    probed = re.search(r'data-probe="([^"]*)"', shown)
    assert probed is not None
    assert probed[1].startswith("true|true|0|layers.0.weight, step 1: "), probed[1]
