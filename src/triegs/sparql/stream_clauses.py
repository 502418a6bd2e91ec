"""Stream extensions of SPARQL: windows in a query's text, and result streams.

RSP-QL: ``REGISTER RSTREAM <o> AS`` before the query, then
``FROM NAMED WINDOW <w> ON STREAM <s> [RANGE PT10S STEP PT5S]``, and ``WINDOW <w> { … }`` in the
pattern. CQELS: ``STREAM <s> [RANGE 30s SLIDE 10s] { … }`` in the pattern. C-SPARQL:
``FROM STREAM <s> [RANGE 10s STEP 5s]`` for the whole pattern.
"""

from __future__ import annotations

from triegs.errors import QueryError, WindowError
from triegs.sparql.lexer import Token, TokenKind
from triegs.sparql.model import Operator, Output
from triegs.sparql.reader import IRIS, Reader
from triegs.sparql.window import Window, read_span

#: The name of the window over the whole pattern.
WHOLE = ""
_STEPS = ("STEP", "SLIDE")
_ENDS = ("]", *_STEPS, "TUMBLING")
_FORMS = "write [RANGE 10s SLIDE 5s], [RANGE UNBOUNDED SLIDE 5s], [NOW] or [TRIPLES 5]"


def read_register(reader: Reader) -> Output | None:
    """``REGISTER RSTREAM <o> AS``; QUERY and STREAM are allowed as operators."""
    if not reader.skip("REGISTER"):
        return None
    operators = [operator.value for operator in Operator]
    word = reader.skip(*operators, "STREAM", "QUERY")
    if not word:
        raise reader.expected(f"{', '.join(operators)}, STREAM or QUERY after REGISTER")
    if reader.token.kind is TokenKind.WORD and reader.token.word != "AS":
        name = reader.advance().text
    elif reader.token.kind in IRIS:
        name = _read_name(reader, "a stream")
    else:
        raise reader.expected("the name of the result stream")
    reader.need("AS", "REGISTER")
    return Output(Operator(word) if word in operators else Operator.RSTREAM, name)


def read_from(reader: Reader, windows: dict[str, Window]) -> None:
    """``FROM NAMED WINDOW <w> ON STREAM <s> [ … ]`` or ``FROM STREAM <s> [ … ]``."""
    following = reader.after().word
    is_named = following == "NAMED" and reader.after(2).word == "WINDOW"
    if not (is_named or following == "STREAM"):
        raise reader.refusal("FROM", reader.token)
    name, at = WHOLE, reader.token
    reader.advance()
    reader.advance()
    if is_named:
        reader.advance()
        at = reader.token
        name = _read_name(reader, "a window")
        reader.need("ON", "the name of a window")
        reader.skip("STREAM")
    if name in windows:
        what = f"window {name}" if name else "FROM STREAM"
        raise reader.error(f"duplicate {what}", at, "window")
    stream = _read_name(reader, "a stream")
    windows[name] = _read_window(reader, stream)


def read_block(reader: Reader, windows: dict[str, Window]) -> str:
    """Read ``WINDOW <w> { … }`` or ``STREAM <s> [ … ] { … }`` up to the opening bracket; returns
    the name of the window.
    """
    token = reader.advance()
    at = reader.token
    name = _read_name(reader, "a window" if token.word == "WINDOW" else "a stream")
    if token.word == "STREAM":
        stream, name = name, f"window {len(windows) + 1}"
        windows[name] = _read_window(reader, stream)
    elif name not in windows:
        hint = f"declare it: FROM NAMED WINDOW {name} ON STREAM <...> [RANGE PT10S STEP PT5S]"
        raise reader.error(f"unknown window {name}", at, "window", hint)
    if reader.token.text != "{":
        raise reader.expected("'{' after a window")
    return name


def _read_name(reader: Reader, what: str) -> str:
    if reader.token.kind not in IRIS:
        raise reader.expected(f"the IRI of {what}")
    return reader.constant()


def _read_window(reader: Reader, stream: str) -> Window:
    """``[RANGE … SLIDE …]``, ``[NOW]``, ``[TRIPLES n]``."""
    opening = reader.token
    if opening.text != "[":
        raise reader.expected("'[' and a window")
    reader.advance()
    token = reader.token
    word = token.word
    if word == "RANGE":
        reader.advance()
        word = reader.token.word if reader.token.word in ("TRIPLES", "UNBOUNDED") else "RANGE"
    try:
        window = _FORM[word](reader, stream) if word in _FORM else None
    except WindowError as problem:
        raise reader.error(str(problem), token, "window") from None
    if window is None:
        raise reader.error(f"a window cannot start with {token}", token, "window", _FORMS)
    if reader.token.text != "]":
        raise _unexpected(reader, reader.token)
    reader.advance()
    return window


def _unexpected(reader: Reader, token: Token) -> QueryError:
    return reader.error(f"unexpected {token} in a window", token, "window", _FORMS)


def _read_range(reader: Reader, stream: str) -> Window:
    width = _read_duration(reader)
    return Window(width, _read_slide(reader), stream=stream)


def _read_unbounded(reader: Reader, stream: str) -> Window:
    reader.advance()
    slide = _read_slide(reader)
    if slide is None:
        raise reader.expected("SLIDE and a duration for an unbounded window")
    return Window.landmark(slide, stream=stream)


def _read_now(reader: Reader, stream: str) -> Window:
    reader.advance()
    return Window.now(_read_slide(reader), stream=stream)


def _read_triples(reader: Reader, stream: str) -> Window:
    reader.advance()
    count = reader.whole_number("TRIPLES", "a number of triples")
    return Window.triples(count, stream=stream)


_FORM = {
    "RANGE": _read_range,
    "UNBOUNDED": _read_unbounded,
    "ALL": _read_unbounded,
    "NOW": _read_now,
    "TRIPLES": _read_triples,
}


def _read_slide(reader: Reader) -> int | None:
    if reader.token.word == "TUMBLING":
        reader.advance()
        return None
    if reader.token.word not in _STEPS:
        return None
    reader.advance()
    return _read_duration(reader)


def _read_duration(reader: Reader) -> int:
    """The text up to the next keyword of the window; the lexer splits ``10s`` into two tokens."""
    first = last = reader.token
    while reader.token.word not in _ENDS:
        if reader.token.kind not in (TokenKind.WORD, TokenKind.INTEGER, TokenKind.DECIMAL):
            raise _unexpected(reader, reader.token)
        last = reader.token
        reader.advance()
    if last.word in _ENDS:
        raise reader.expected("a duration")
    text = reader.lexer.text[first.start : last.start + len(last.text)]
    try:
        return read_span(text)
    except WindowError as problem:
        raise reader.error(str(problem), first, "window") from None
