"""What stream languages add to SPARQL: windows in a query's text, and streams of results.

RSP-QL: ``REGISTER RSTREAM <o> AS`` before the query, then
``FROM NAMED WINDOW <w> ON STREAM <s> [RANGE PT10S STEP PT5S]``, and ``WINDOW <w> { … }`` in the
pattern. CQELS: ``STREAM <s> [RANGE 30s SLIDE 10s] { … }`` in the pattern. C-SPARQL:
``FROM STREAM <s> [RANGE 10s STEP 5s]`` for the whole pattern.
"""

from __future__ import annotations

from triegs.errors import QueryError, WindowError
from triegs.sparql.cursor import IRIS, Cursor
from triegs.sparql.lexer import Token, TokenKind
from triegs.sparql.model import Operator, Output
from triegs.sparql.window import Window, read_span

#: The name of the window that the whole pattern reads.
WHOLE = ""
_STEPS = ("STEP", "SLIDE")
_ENDS = ("]", *_STEPS, "TUMBLING")
_FORMS = "write [RANGE 10s SLIDE 5s], [RANGE UNBOUNDED SLIDE 5s], [NOW] or [TRIPLES 5]"


def read_register(cursor: Cursor) -> Output | None:
    """``REGISTER RSTREAM <o> AS``, or QUERY or STREAM instead of the operator."""
    if not cursor.skip("REGISTER"):
        return None
    operators = [operator.value for operator in Operator]
    word = cursor.skip(*operators, "STREAM", "QUERY")
    if not word:
        raise cursor.expected(f"{', '.join(operators)}, STREAM or QUERY after REGISTER")
    if cursor.token.kind is TokenKind.WORD and cursor.token.word != "AS":
        name = cursor.advance().text
    elif cursor.token.kind in IRIS:
        name = _read_name(cursor, "a stream")
    else:
        raise cursor.expected("the name of the stream of results")
    cursor.need("AS", "REGISTER")
    return Output(Operator(word) if word in operators else Operator.RSTREAM, name)


def read_from(cursor: Cursor, windows: dict[str, Window]) -> None:
    """``FROM NAMED WINDOW <w> ON STREAM <s> [ … ]`` or ``FROM STREAM <s> [ … ]``."""
    following = cursor.after().word
    is_named = following == "NAMED" and cursor.after(2).word == "WINDOW"
    if not (is_named or following == "STREAM"):
        raise cursor.refusal("FROM", cursor.token)
    name, at = WHOLE, cursor.token
    cursor.advance()
    cursor.advance()
    if is_named:
        cursor.advance()
        at = cursor.token
        name = _read_name(cursor, "a window")
        cursor.need("ON", "the name of a window")
        cursor.skip("STREAM")
    if name in windows:
        what = f"the window {name}" if name else "FROM STREAM"
        raise cursor.error(f"{what} is there twice", at, "window")
    stream = _read_name(cursor, "a stream")
    windows[name] = _read_window(cursor, stream)


def read_block(cursor: Cursor, windows: dict[str, Window]) -> str:
    """``WINDOW <w> { … }`` or ``STREAM <s> [ … ] { … }``, up to the opening bracket: the name of
    its window.
    """
    token = cursor.advance()
    at = cursor.token
    name = _read_name(cursor, "a window" if token.word == "WINDOW" else "a stream")
    if token.word == "STREAM":
        stream, name = name, f"window {len(windows) + 1}"
        windows[name] = _read_window(cursor, stream)
    elif name not in windows:
        hint = f"declare it: FROM NAMED WINDOW {name} ON STREAM <...> [RANGE PT10S STEP PT5S]"
        raise cursor.error(f"there is no window {name}", at, "window", hint)
    if cursor.token.text != "{":
        raise cursor.expected("'{' after a window")
    return name


def _read_name(cursor: Cursor, what: str) -> str:
    if cursor.token.kind not in IRIS:
        raise cursor.expected(f"the IRI of {what}")
    return cursor.constant()


def _read_window(cursor: Cursor, stream: str) -> Window:
    """``[RANGE … SLIDE …]``, ``[NOW]``, ``[TRIPLES n]``."""
    opening = cursor.token
    if opening.text != "[":
        raise cursor.expected("'[' and a window")
    cursor.advance()
    token = cursor.token
    word = token.word
    if word == "RANGE":
        cursor.advance()
        word = cursor.token.word if cursor.token.word in ("TRIPLES", "UNBOUNDED") else "RANGE"
    try:
        window = _FORM[word](cursor, stream) if word in _FORM else None
    except WindowError as problem:
        raise cursor.error(str(problem), token, "window") from None
    if window is None:
        raise cursor.error(f"no window starts with {token}", token, "window", _FORMS)
    if cursor.token.text != "]":
        raise _unexpected(cursor, cursor.token)
    cursor.advance()
    return window


def _unexpected(cursor: Cursor, token: Token) -> QueryError:
    return cursor.error(f"a window cannot go on with {token}", token, "window", _FORMS)


def _read_range(cursor: Cursor, stream: str) -> Window:
    width = _read_duration(cursor)
    return Window(width, _read_slide(cursor), stream=stream)


def _read_unbounded(cursor: Cursor, stream: str) -> Window:
    cursor.advance()
    slide = _read_slide(cursor)
    if slide is None:
        raise cursor.expected("SLIDE and a duration, for a window without bounds")
    return Window.landmark(slide, stream=stream)


def _read_now(cursor: Cursor, stream: str) -> Window:
    cursor.advance()
    return Window.now(_read_slide(cursor), stream=stream)


def _read_triples(cursor: Cursor, stream: str) -> Window:
    cursor.advance()
    count = cursor.whole_number("TRIPLES", "a number of triples")
    return Window.triples(count, stream=stream)


_FORM = {
    "RANGE": _read_range,
    "UNBOUNDED": _read_unbounded,
    "ALL": _read_unbounded,
    "NOW": _read_now,
    "TRIPLES": _read_triples,
}


def _read_slide(cursor: Cursor) -> int | None:
    if cursor.token.word == "TUMBLING":
        cursor.advance()
        return None
    if cursor.token.word not in _STEPS:
        return None
    cursor.advance()
    return _read_duration(cursor)


def _read_duration(cursor: Cursor) -> int:
    """The text up to the next word of the window: ``10s`` is a number and a word to the lexer."""
    first = last = cursor.token
    while cursor.token.word not in _ENDS:
        if cursor.token.kind not in (TokenKind.WORD, TokenKind.INTEGER, TokenKind.DECIMAL):
            raise _unexpected(cursor, cursor.token)
        last = cursor.token
        cursor.advance()
    if last.word in _ENDS:
        raise cursor.expected("a duration")
    text = cursor.lexer.text[first.start : last.start + len(last.text)]
    try:
        return read_span(text)
    except WindowError as problem:
        raise cursor.error(str(problem), first, "window") from None
