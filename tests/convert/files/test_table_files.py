"""Files that a table, a figure or another object of a library writes by one of its methods."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added, convert_text

TABLE = f"import pandas as pd\nimport seaborn as sns\n{HEAD}df = pd.DataFrame({{'a': [1, 2, 3]}})\n"
WRITES = [
    "df.loc[df['a'] < 3].to_csv('a.csv', mode='a')",
    "df[df['a'] < 3].to_csv('a.csv')",
    "df['a'].to_json(path_or_buf='a.json')",
    "df.groupby('a').mean().to_pickle('a.pkl')",
    "df.T.to_parquet('a.parquet')",
    "pd.concat([df, df]).describe().to_excel('a.xlsx')",
    "sns.heatmap(df).get_figure().savefig('a.png')",
]


@pytest.mark.parametrize("line", WRITES)
def test_rank_0_alone_writes_a_table(tmp_path: Path, line: str) -> None:
    lines = added(tmp_path, f"{TABLE}{line}\n{STEP}")
    assert lines[lines.index("if dd.is_main():") + 1] == line


def test_a_table_of_a_selection_is_read_once_it_is_written(tmp_path: Path) -> None:
    text = (
        "def kept(table):\n    table = table.loc[table['a'] < 3]\n"
        "    table.to_csv('kept.csv', index=False)\n    return pd.read_csv('kept.csv')\n\n"
        "print(kept(df))\n"
    )
    lines = added(tmp_path, f"{TABLE}{text}{STEP}")
    place = lines.index("if dd.is_main():")
    written = "table.to_csv('kept.csv', index=False)"
    assert lines[place : place + 3] == ["if dd.is_main():", written, "dd.barrier()"]


@pytest.mark.parametrize("line", ["text = df.head().to_json()", "print(df.T.to_csv())"])
def test_the_text_of_a_table_is_no_file(tmp_path: Path, line: str) -> None:
    lines = added(tmp_path, f"{TABLE}{line}\n{STEP}")
    assert "if dd.is_main():" not in lines


def test_a_table_in_memory_is_no_file(tmp_path: Path) -> None:
    line = "df.head().to_csv(io.StringIO())"
    conversion = convert_text(tmp_path, f"import io\n{TABLE}{line}\n{STEP}")
    assert not [note for note in conversion.notes if "to_csv" in note.text]
