"""The structure of the formats that other programs read, as their specifications ask for it."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.conftest import Ddpify
from tests.lint.setups import SETUPS

PATH = "a,b & 50% c/train.py"
ADDED = """
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    torch.save(net.state_dict(), f"<{epoch}>.pt"); torch.save(net.state_dict(), "a.pt")
torch.save(net.state_dict(), "é.pt"); torch.save(net.state_dict(), "b.pt")
"""
TEXT = SETUPS["distributed"] + ADDED

Written = Callable[[str], str]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ddpify: Ddpify) -> Written:
    """What is written in a format for two files with findings, one of them not Python at all."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / PATH
    script.parent.mkdir()
    script.write_text(TEXT, encoding="utf-8")
    (tmp_path / "z.py").write_text("import torch\ndef (:\n", encoding="utf-8")
    return lambda name: ddpify("lint", ".", "--no-cache", "--output-format", name).stdout


def reference(written: Written) -> list[tuple[str, str, int]]:
    """Path, code and line of each finding, from the format ``json``."""
    return [
        (Path(one["filename"]).as_posix(), one["code"], one["location"]["row"])
        for one in json.loads(written("json"))
    ]


def offset(region: dict[str, int], side: str) -> int:
    """The offset into the text of one end of a SARIF region (lines and columns from 1)."""
    lines = TEXT.splitlines(keepends=True)
    return sum(map(len, lines[: region[f"{side}Line"] - 1])) + region[f"{side}Column"] - 1


def applied(changes: list[dict[str, Any]]) -> str:
    """The text after a SARIF fix."""
    text = TEXT
    for one in sorted(changes, key=lambda one: -offset(one["deletedRegion"], "start")):
        region = one["deletedRegion"]
        start, end = offset(region, "start"), offset(region, "end")
        text = text[:start] + one["insertedContent"]["text"] + text[end:]
    return text


def test_sarif_follows_version_2_1_0(written: Written) -> None:
    log = json.loads(written("sarif"))
    assert set(log) == {"$schema", "version", "runs"} and log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["columnKind"] == "unicodeCodePoints"
    assert len({one["id"] for one in rules}) == len(rules) > 1
    found = []
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error") and result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        uri = place["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9._~!$&'()*+,;=:@/%-]+", uri), "no URI reference (RFC 3986)"
        region = place["region"]
        start = (region["startLine"], region["startColumn"])
        assert (1, 1) <= start <= (region["endLine"], region["endColumn"])
        found.append((unquote(uri), result["ruleId"], region["startLine"]))
    assert found == reference(written)


def test_sarif_fixes_give_code_that_compiles(written: Written) -> None:
    (run,) = json.loads(written("sarif"))["runs"]
    fixes = [fix for result in run["results"] for fix in result.get("fixes", ())]
    assert fixes
    for fix in fixes:
        assert fix["description"]["text"]
        for change in fix["artifactChanges"]:
            assert unquote(change["artifactLocation"]["uri"]) == PATH
            text = applied(change["replacements"])
            assert text != TEXT
            compile(text, "fixed.py", "exec")


def test_junit_counts_agree(written: Written) -> None:
    root = ET.fromstring(written("junit").encode())
    assert root.tag == "testsuites"
    cases = [(suite, case) for suite in root for case in suite]
    assert int(root.get("tests", "")) == int(root.get("failures", "")) == len(cases)
    for suite in root:
        assert suite.tag == "testsuite" and suite.get("tests") == str(len(suite))
        assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
    assert all(case.tag == "testcase" and case.get("classname") for _, case in cases)
    assert [
        (Path(suite.get("name", "")).as_posix(), case.get("name", "").split()[0],
         int(case.get("line", "")))
        for suite, case in cases
    ] == reference(written)  # fmt: skip


def test_gitlab_entries_are_complete(written: Written) -> None:
    entries = json.loads(written("gitlab"))
    assert len({one["fingerprint"] for one in entries}) == len(entries)
    assert {one["severity"] for one in entries} <= {"info", "minor", "major", "critical", "blocker"}
    assert all(one["check_name"] for one in entries)
    assert [
        (one["location"]["path"], one["description"].split()[0], one["location"]["lines"]["begin"])
        for one in entries
    ] == reference(written)


def test_github_commands_survive_the_runner(written: Written) -> None:
    """Read as the Actions runner does: properties up to ``::``, then the escapes undone."""
    found = []
    for line in written("github").splitlines():
        command, properties, _ = line.removeprefix("::").split(" ", 1)[0], *line[2:].split("::", 1)
        assert command in ("notice", "warning", "error")
        given = dict(one.split("=", 1) for one in properties.split(" ", 1)[1].split(","))
        code = unquote(given["title"]).removeprefix("ddpify ").split()[0]
        found.append((unquote(given["file"]), code, int(given["line"])))
    assert found == reference(written)


@pytest.mark.parametrize("name", ["full", "concise", "json", "github", "gitlab", "sarif", "junit"])
def test_each_format_says_how_sure_a_finding_is(written: Written, name: str) -> None:
    text = written(name)
    assert "silent-wrong" in text and "likely" in text and "certain" in text
