"""Where nodes stand, against LibCST's own positions."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from ddpify.source import source_from_bytes
from ddpify.understanding.project import ModuleFile
from tests.conftest import FIXTURES

ODD = (
    b"\xef\xbb\xbf# head\r\nif (x :=  1) :\r\n\tprint( f'{x!r:>{2}}' , *[1, 2,], )\r\n"
    b"\r\n@ decorated\r\nasync def f(a , *, b = 2) -> None : pass ; return\r\nclass A ( B ) :\r\n"
    b"    '\xc3\xa4' ; y = (\r\n  1\r\n )\r\nwhile True: break\r\nelse : pass\r\n"
)


@pytest.mark.parametrize("data", [ODD, *(p.read_bytes() for p in FIXTURES.glob("*/train.py"))])
def test_places_are_those_of_libcst(data: bytes) -> None:
    source = source_from_bytes(data, "train.py")
    file = ModuleFile(source, "train", editable=True)
    known = MetadataWrapper(source.module, unsafe_skip_copy=True).resolve(PositionProvider)
    for node in (*file.parents, file.tree):
        begin, end = map(file.lines.place, file.offsets(node))
        expected = known[node]
        assert begin == (expected.start.line, expected.start.column), node
        assert end == (expected.end.line, expected.end.column), node


def test_a_node_of_another_file_has_the_first_line(tmp_path: Path) -> None:
    file = ModuleFile(source_from_bytes(b"x = 1\n", "train.py"), "train", editable=True)
    assert file.line(cst.Name("y")) == 1
