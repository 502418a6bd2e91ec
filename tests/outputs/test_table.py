"""Tables for people."""

from __future__ import annotations

from tests.outputs.answers import make_result, write

from triegs.outputs import Format, Head, Kind, Multiplicity, Options
from triegs.terms.term import XSD

NAMES = ("x", "y")
HEAD = Head("likes", NAMES, prefixes={"": "http://ex/"})
TABLE = Options(Format.TABLE)
ROWS = [("<http://ex/a>", f'"5"^^<{XSD}integer>'), ("<http://other/b>", None)]


def show(*results: object, head: Head = HEAD, options: Options = TABLE, **how: object) -> str:
    return write(head, options, *results, **how).decode()  # type: ignore[arg-type]


def test_a_title_and_a_table() -> None:
    assert show(make_result(NAMES, ROWS, [2, 1])) == (
        "likes  epoch 3, time 20  2 answers\n"
        "x                  y   multiplicity\n"
        "───────────────────────────────────\n"
        ":a                 5              2\n"
        "<http://other/b>                  1\n"
        "\n"
    )


def test_nothing_to_show_is_one_line() -> None:
    assert show(make_result(NAMES, [], [])) == "likes  epoch 3, time 20  no answers\n"
    changes = make_result(NAMES, [], [], Kind.CHANGES, time=None)
    assert show(changes) == "likes  epoch 3  no changes\n"


def test_changes_have_signs() -> None:
    text = show(make_result(NAMES, ROWS, [2, -1], Kind.CHANGES))
    assert "+2\n" in text
    assert "-1\n" in text
    assert text.startswith("likes  epoch 3, time 20  2 changes\n")


def test_colours_on_request_only() -> None:
    result = make_result(NAMES, ROWS, [2, -1], Kind.CHANGES)
    assert "\x1b[" not in show(result)
    assert "\x1b[32m    +2" in show(result, is_coloured=True)


def test_long_values_fold_and_lose_nothing() -> None:
    iri = f"<http://ex/{'long/' * 30}>"
    text = show(make_result(NAMES, [(iri, iri)], [1]), width=60)
    assert max(map(len, text.splitlines())) <= 60
    wide = show(make_result(NAMES, [(iri, iri)], [1]))
    assert f"{iri}   {iri}" in wide


def test_rows_are_bounded_and_that_is_said() -> None:
    text = show(make_result(NAMES, ROWS, [2, 1]), options=Options(most_rows=1))
    assert "more than 1 answers" in text
    assert "first 1 rows; use --rows to show more" in text
    assert "other" not in text
    assert "use --rows" not in show(make_result(NAMES, ROWS, [2, 1]), options=Options(most_rows=2))


def test_multiplicity_by_choice() -> None:
    result = make_result(NAMES, ROWS, [2, 1])
    none = show(result, options=Options(multiplicity=Multiplicity.NONE))
    assert "multiplicity" not in none
    many = show(result, options=Options(multiplicity=Multiplicity.EXPAND))
    assert many.count(":a") == 2
    assert "3 answers" in many


def test_yes_or_no() -> None:
    head = Head("any", (), is_ask=True)
    assert show(make_result((), [()], [1]), head=head) == "any  epoch 3, time 20  answer yes\n\n"
    assert "answer no\n" in show(make_result((), [], []), head=head)
