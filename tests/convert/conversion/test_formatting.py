"""A script keeps the form that it is written in."""

from __future__ import annotations

from pathlib import Path

import black
import pytest

from tests.convert.examples import HEAD, STEP, convert_text

WIDE = HEAD.replace("batch_size=6, shuffle=True", "batch_size=6, shuffle=True, drop_last=False")


def test_what_black_wrote_stays_as_black_writes(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.black]\nline-length = 100\n")
    mode = black.Mode(line_length=100)
    data = convert_text(tmp_path, black.format_str(WIDE + STEP, mode=mode)).data.decode()
    assert data == black.format_str(data, mode=mode)
    assert max(map(len, data.splitlines())) <= 100


def test_any_other_form_is_left_alone(tmp_path: Path) -> None:
    text = (WIDE + STEP).replace("lr=0.1", "lr = 0.1")
    data = convert_text(tmp_path, text).data.decode()
    assert "lr = 0.1" in data
    assert max(map(len, data.splitlines())) > 100


def test_single_quotes_show_without_black_that_black_did_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(text: str, **_: object) -> str:
        raise NotImplementedError("Black was asked")

    monkeypatch.setattr(black, "format_str", asked)
    text = WIDE + STEP + "print('done')\n"
    convert_text(tmp_path, text)
    (tmp_path / "pyproject.toml").write_text("[tool.black]\nskip-string-normalization = true\n")
    with pytest.raises(NotImplementedError):
        convert_text(tmp_path, text)


@pytest.mark.parametrize("tight", ["scale=2", "scale = max(1,2)", "scale = 1+1"])
def test_tight_code_shows_without_black_that_black_did_not_write(
    tight: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(text: str, mode: black.Mode) -> str:
        raise AssertionError("Black was asked")

    text = black.format_str(WIDE + STEP, mode=black.Mode())
    monkeypatch.setattr(black, "format_str", asked)
    assert f"{tight}\n" in convert_text(tmp_path, f"{text}\n{tight}\n").data.decode()


def test_powers_and_texts_do_not_look_tight(tmp_path: Path) -> None:
    text = (
        black.format_str(WIDE + STEP, mode=black.Mode()) + '\nscale = 2**3\nname = f"{scale*2}"\n'
    )
    data = convert_text(tmp_path, text).data.decode()
    assert data == black.format_str(data, mode=black.Mode())


@pytest.mark.parametrize(
    ("shown", "resolved"),
    [
        ("tqdm(feed, ncols=70)", "tqdm(feed, ncols=70, disable=not dd.is_main())"),
        (
            "tqdm(\n    feed, ncols=70\n)",
            "tqdm(\n    feed, ncols=70, disable=not dd.is_main()\n)",
        ),
        (
            "tqdm(\n    feed,\n    ncols=70,\n)",
            "tqdm(\n    feed,\n    ncols=70,\n    disable=not dd.is_main(),\n)",
        ),
        ("tqdm(\n    feed,\n)", "tqdm(\n    feed,\n    disable=not dd.is_main(),\n)"),
    ],
)
def test_a_further_argument_stands_as_the_others_do(
    tmp_path: Path, shown: str, resolved: str
) -> None:
    text = "from tqdm import tqdm\n" + HEAD + STEP.replace("in feed:", f"in {shown}:")
    assert f"for a, b in {resolved}:\n" in convert_text(tmp_path, text).data.decode()


def test_parentheses_become_those_of_the_call(tmp_path: Path) -> None:
    lines = (
        "    penalty = (\n        F.cross_entropy(brain(a), b)  # the loss\n"
        "        + 0.1 * brain(a).pow(2).mean()\n    )\n"
    )
    text = HEAD + STEP.replace("    penalty = F.cross_entropy(brain(a), b)\n", lines)
    after = convert_text(tmp_path, text).data.decode()
    wanted = lines.replace("= (", "= dd.mean(").replace(
        "()\n    )", "(),\n        lazy=True\n    )"
    )
    assert wanted in after
