"""The kernels and `triegs.terms.term` agree on what is canonical and what is an integer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.dictionary.drawing import INTEGER, canonical, malformed, spellings, texts

from triegs.terms.decoder import count_digits, write_integer
from triegs.terms.spelling import (
    INTEGER_SUFFIX,
    equal_bytes,
    hash_bytes,
    is_canonical,
    may_be_integer,
    read_integer,
)
from triegs.terms.term import canonical_term, literal


def judge(text: str) -> bool:
    data = np.frombuffer(text.encode(), np.uint8)
    return bool(is_canonical(data, 0, len(data)))


def judge_by_terms(text: str) -> bool:
    try:
        return canonical_term(text) == text
    except ValueError:
        return False


anything = canonical | malformed | spellings.map(lambda pair: pair[0]) | texts
almost = st.builds(lambda a, b: a[: len(a) // 2] + b[len(b) // 2 :], canonical, anything)
noisy = st.text('<>"\\@^:_-. aZ0é\x00\x7f\ufffe', max_size=8)


@given(anything | almost | noisy)
@example('"\uffff"')
@example('"x"^^<http://www.w3.org/2001/XMLSchema#string>')
@example("_:é")
@example('"a"@en-')
@example('"a"@1')
def test_what_a_kernel_takes_is_canonical(text: str) -> None:
    if judge(text):
        assert judge_by_terms(text)


@given(canonical)
def test_kernels_know_nearly_every_canonical_term(text: str) -> None:
    unusual = any(c in text for c in ("\\u", "_:é", "\\U"))
    assert judge(text) or unusual or not judge_by_terms(text)


@given(st.binary(max_size=8))
def test_bytes_that_are_no_utf8_are_not_canonical(data: bytes) -> None:
    quoted = b'"' + data + b'"'
    array = np.frombuffer(quoted, np.uint8)
    if is_canonical(array, 0, len(array)):
        assert judge_by_terms(quoted.decode())


@given(st.integers(-(2**63), 2**63 - 1))
@example(-(2**63))
@example(2**63 - 1)
@example(0)
@example(-10)
@example(10**18)
def test_integers_are_read_and_written(value: int) -> None:
    expected = literal(str(value), INTEGER).encode()
    size = int(count_digits(np.int64(value))) + 1 + len(INTEGER_SUFFIX)
    assert size == len(expected)
    data = np.zeros(size, np.uint8)
    write_integer(np.int64(value), data, 0, size)
    assert data.tobytes() == expected
    assert may_be_integer(data, 0, size)
    assert read_integer(data, 0, size) == (True, value)


@pytest.mark.parametrize(
    "lexical",
    ["05", "+5", "-0", "-", "5a", "9223372036854775808", "-9223372036854775809", "00", "1.0"],
)
def test_other_lexical_forms_are_no_integers(lexical: str) -> None:
    data = np.frombuffer(literal(lexical, INTEGER).encode(), np.uint8)
    whole = may_be_integer(data, 0, len(data)) and read_integer(data, 0, len(data))[0]
    assert not whole


@given(st.binary(max_size=40), st.binary(max_size=5))
def test_equal_bytes_have_equal_hashes_wherever_they_lie(data: bytes, before: bytes) -> None:
    here = np.frombuffer(data + b"\0", np.uint8)
    there = np.frombuffer(before + data, np.uint8)
    start, end = len(before), len(before) + len(data)
    assert hash_bytes(here, 0, len(data)) == hash_bytes(there, start, end)
    assert 0 <= hash_bytes(here, 0, len(data)) < 2**31
    assert equal_bytes(here, 0, there, start, len(data))
    if data:
        other = bytearray(data)
        other[-1] ^= 1
        assert not equal_bytes(np.frombuffer(other, np.uint8), 0, there, start, len(data))
