"""Loaders that are split, and that code which is not seen goes through as well."""

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, changed_lines, convert_text

HEAD = "import other\nfrom elsewhere import judge\n" + HEAD


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("judge(brain, feed)", "judge(brain, dd.replicate(feed))"),
        ("other.judge(brain, data=feed)", "other.judge(brain, data=dd.replicate(feed))"),
        ("other.Finder(brain).go(feed)", "other.Finder(brain).go(dd.replicate(feed))"),
        ("other.Finder(brain).filter(feed)", "other.Finder(brain).filter(dd.replicate(feed))"),
        ("other.Judge().eval(feed)", "other.Judge().eval(dd.replicate(feed))"),
        ("other.Judge().train(brain, feed)", "other.Judge().train(brain, dd.replicate(feed))"),
    ],
)
def test_unseen_code_gets_whole_batches(tmp_path: Path, given: str, expected: str) -> None:
    conversion = convert_text(tmp_path, HEAD + STEP + f"print({given})\n")
    assert f"print({expected})" in changed_lines(conversion)[1]
    assert not any(note.attention for note in conversion.notes)


def test_a_loader_in_a_collection_is_noted(tmp_path: Path) -> None:
    conversion = convert_text(tmp_path, HEAD + STEP + "judge({'train': feed})\n")
    noted = [(note.line, note.text) for note in conversion.notes if note.attention]
    text = "code that ddpify cannot read gets a loader that gives each rank its part of every batch"
    assert noted == [(18, f"{text}: give it one of its own")]


def test_python_itself_and_what_is_not_split_get_what_they_got(tmp_path: Path) -> None:
    lines = changed_lines(convert_text(tmp_path, HEAD + STEP + "print(feed)\njudge(check)\n"))[1]
    assert not any("replicate" in line for line in lines)


@pytest.mark.parametrize("package", [True, False])
def test_a_folder_without_code_is_no_library(tmp_path: Path, package: bool) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "judging.py").write_text("def judge(net, feed):\n    pass\n")
    if package:
        (tmp_path / "tools" / "__init__.py").write_text("")
    text = "import tools.judging\n" + HEAD + STEP + "tools.judging.judge(brain, feed)\n"
    assert not any("replicate" in line for line in changed_lines(convert_text(tmp_path, text))[1])


METRICS = """\
held = torch.zeros(20)
def measure(a, b, start, noisy):
    if noisy:
        a = other.noisy(a)
    penalties = F.cross_entropy(brain(a), b, reduction="none")
    held[start : start + len(b)] = penalties
    return penalties.mean()
for i, (a, b) in enumerate(feed):
    rule.zero_grad()
    measure(a, b, 6 * i, True).backward()
    rule.step()
"""


def test_a_function_that_runs_the_model_gets_no_rows_of_all_ranks(tmp_path: Path) -> None:
    lines = changed_lines(convert_text(tmp_path, HEAD + METRICS))[1]
    assert not any("measure(dd.gather" in line for line in lines)
    assert "a = dd.split(other.noisy(dd.gather(a)))" in lines


@pytest.mark.parametrize("collection", ["list", "tuple"])
def test_batches_that_are_listed_to_be_counted_stay_divided(
    tmp_path: Path, collection: str
) -> None:
    text = HEAD + STEP + f"print(penalty.item() / len({collection}(feed)))\n"
    lines = changed_lines(convert_text(tmp_path, text))[1]
    made = "DataLoader(TensorDataset(features, labels), batch_size=6, shuffle=True)"
    assert f"feed = dd.shard({made})" in lines
