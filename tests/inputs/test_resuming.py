"""Reading that resumes after any batch finds exactly the batches that would have followed."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from triegs.errors import InputError
from triegs.events import lines, open_input
from triegs.events.resume import choose_files

ROWS = [(number // 3, f"<a:{number}>", "x" * (number * 37 % 90)) for number in range(60)]


def write(folder, form):
    for part in range(2):
        path = folder / f"{part}.{form}"
        rows = ROWS[30 * part : 30 * part + 30]
        if form == "parquet":
            time, subject, obj = map(list, zip(*rows, strict=True))
            table = pa.table({"time": time, "subject": subject, "predicate": ["<a:p>"] * 30})
            table = table.append_column("object", pa.array([f'"{text}"' for text in obj]))
            pq.write_table(table, path, row_group_size=8)
        elif form == "csv":
            text = "".join(f'{t},{s},<a:p>,"""{o}"""\n' for t, s, o in rows)
            path.write_text("time,subject,predicate,object\n" + text)
        elif form == "jsonl":
            names = {"predicate": "<a:p>"}
            made = [{**names, "time": t, "subject": s, "object": f'"{o}"'} for t, s, o in rows]
            path.write_text("".join(json.dumps(each) + "\n" for each in made))
        else:
            path.write_text("".join(f'{s} <a:p> "{o}" .\n' for _, s, o in rows))


@pytest.mark.parametrize("form", ["csv", "jsonl", "nt", "ttl", "parquet"])
def test_batches_end_where_they_would_have(form, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LEAST_BYTES", 64)
    monkeypatch.setattr(lines, "BYTES_A_ROW", 40)
    write(tmp_path, form)
    source = open_input(tmp_path, batch_rows=7)
    whole, starts = [], []
    for batch in source:
        whole.append(batch.to_pydict())
        entries = {name: dict(entry) for name, entry in source.entries.items()}
        starts.append(json.dumps({"tick": source.position["tick"], "files": entries}))
    assert len(whole) > 9
    for number, start in enumerate(starts):
        rest = open_input(tmp_path, batch_rows=7, start=json.loads(start))
        assert [batch.to_pydict() for batch in rest] == whole[number + 1 :]


def test_a_position_in_the_middle_of_a_batch(tmp_path):
    write(tmp_path, "csv")
    source = open_input(tmp_path / "0.csv", batch_rows=10)
    whole = [row for batch in source for row in batch.to_pylist()]
    (name,) = source.entries
    for skip in (1, 9, 15, 30):
        entry = {"place": {"skip": skip}, "bytes": 10, "whole": False}
        rest = open_input(tmp_path / "0.csv", batch_rows=10, start={"files": {name: entry}})
        assert [row for batch in rest for row in batch.to_pylist()] == whole[skip:]


def test_malformed_records_before_the_position_are_not_counted_again(tmp_path):
    path = tmp_path / "events.ttl"
    path.write_text("<a:a> <a:p> nothing: .\n" + "".join(f"<a:{n}> <a:p> 1 .\n" for n in range(9)))
    source = open_input(path, batch_rows=4)
    next(source)
    start = {"tick": source.position["tick"], "files": dict(source.entries)}
    start["quarantined"] = dict(source.report.quarantined)
    rest = open_input(path, batch_rows=4, start=start)
    assert sum(batch.num_rows for batch in rest) == next(open_input(path)).num_rows - 4
    assert sum(rest.report.quarantined.values()) == 1


def test_nothing_is_left(tmp_path):
    write(tmp_path, "csv")
    source = open_input(tmp_path)
    assert len(list(source)) == 2
    assert list(open_input(tmp_path, start={"files": source.entries})) == []


def test_a_path_that_is_given_twice_is_read_twice(tmp_path):
    write(tmp_path, "csv")
    path = tmp_path / "0.csv"
    source = open_input([path, path])
    first = next(source)
    rest = open_input([path, path], start={"files": dict(source.entries)})
    assert [batch.num_rows for batch in rest] == [first.num_rows]


def test_a_file_that_is_gone(tmp_path):
    write(tmp_path, "csv")
    entry = {"place": {}, "bytes": 1, "whole": False}
    with pytest.raises(InputError, match="was not read to its end"):
        choose_files([], {"events.csv": entry})
    choose_files([], {"events.csv": {**entry, "whole": True}})
