"""Progress bars around loaders."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

from tests.convert.examples import HEAD, STEP, added


def test_a_bar_around_itself(tmp_path: Path) -> None:
    """``feed = tqdm(feed)`` in the loop of the epochs, in two places."""
    text = HEAD.replace("import torch\n", "import torch\nimport tqdm\n", 1)
    text += "for epoch in range(3):\n    feed = tqdm.tqdm(feed)\n" + indent(STEP, "    ")
    text += (
        "    feed = tqdm.tqdm(feed)\n    for a, b in feed:\n        print(brain(a).sum().item())\n"
    )
    lines = added(tmp_path, text)
    assert lines.count("feed = tqdm.tqdm(feed, disable=not dd.is_main())") == 2
    assert (
        "feed = dd.shard(DataLoader(TensorDataset(features, labels), batch_size=6, shuffle=True))"
        in lines
    )
