"""The fields of a record are JSON, however they were written."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from triegs.durable.columns import pack, unpack, write_fields

scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70))
values = st.one_of(scalars, st.text(max_size=4), st.lists(scalars, max_size=2))
fields = st.dictionaries(st.one_of(st.sampled_from(["epoch", "time"]), st.text(max_size=3)), values)


@given(fields)
@example({'a"b': 1, "strict": True, "number": 1})
@example({"é": None})
def test_fields_are_read_as_they_were_written(given):
    assert json.loads(write_fields(given)) == given
    assert unpack(b"".join(pack(given))).fields == given
