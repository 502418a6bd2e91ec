"""What stream languages add to SPARQL: windows in a query's text, and streams of results.

The pass before rdflib calls this at the words below. RSP-QL: ``REGISTER RSTREAM <o> AS`` before the
query, ``FROM NAMED WINDOW <w> ON STREAM <s> [RANGE PT10S STEP PT5S]``, ``WINDOW <w> { … }`` in the
pattern. CQELS: ``STREAM <s> [RANGE 30s SLIDE 10s] { … }`` in the pattern. C-SPARQL:
``FROM STREAM <s> [RANGE 10s STEP 5s]`` for the whole pattern. rdflib sees a ``GRAPH`` for each
block and nothing of the rest, so places in the text stay what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from triegs.errors import QueryError, WindowError
from triegs.sparql.follow import Expect, Zone
from triegs.sparql.lexer import Token, TokenKind
from triegs.sparql.model import Operator, Output
from triegs.sparql.window import Window, read_span

if TYPE_CHECKING:
    from triegs.sparql.prepass import Reader

#: The name of the window that the whole pattern reads.
WHOLE = ""
_NAMES = (TokenKind.IRI, TokenKind.NAME)
_STEPS = ("STEP", "SLIDE")
_ENDS = ("]", *_STEPS, "TUMBLING")
_FORMS = "write [RANGE 10s SLIDE 5s], [RANGE UNBOUNDED SLIDE 5s], [NOW] or [TRIPLES 5]"
_MORE = (Expect.STATEMENT, Expect.NEXT, Expect.MORE)


def read_register(reader: Reader) -> None:
    """``REGISTER RSTREAM <o> AS``, or QUERY or STREAM instead of the operator."""
    if reader.token.word != "REGISTER":
        return
    reader.skip()
    operators = [operator.value for operator in Operator]
    word = reader.token.word
    if word not in (*operators, "STREAM", "QUERY"):
        raise reader.expected(f"{', '.join(operators)}, STREAM or QUERY after REGISTER")
    operator = Operator(word) if word in operators else Operator.RSTREAM
    reader.skip()
    if reader.token.kind is TokenKind.WORD and reader.token.word != "AS":
        name = reader.token.text
    elif reader.token.kind in _NAMES:
        name = f"<{reader.iri(reader.token)}>"
    else:
        raise reader.expected("the name of the stream of results")
    reader.skip()
    _read_word(reader, "AS", "REGISTER")
    reader.source.output = Output(operator, name)


def read_from(reader: Reader) -> bool:
    """``FROM NAMED WINDOW <w> ON STREAM <s> [ … ]`` or ``FROM STREAM <s> [ … ]``; False if the
    FROM is another.
    """
    source, following = reader.source, reader.after().word
    is_named = following == "NAMED" and reader.after(2).word == "WINDOW"
    if reader.brackets or not (is_named or following == "STREAM"):
        return False
    name, at = WHOLE, reader.token
    reader.skip()
    reader.skip()
    if is_named:
        reader.skip()
        name, at = _read_name(reader, "a window"), reader.token
        _read_word(reader, "ON", "the name of a window")
        if reader.token.word == "STREAM":
            reader.skip()
    if name in source.windows:
        what = f"the window {name}" if name else "FROM STREAM"
        raise source.error(f"{what} is there twice", at, "window")
    stream = _read_name(reader, "a stream")
    source.windows[name] = _read_window(reader, stream)
    return True


def read_block(reader: Reader) -> bool:
    """``WINDOW <w> { … }`` or ``STREAM <s> [ … ] { … }``, up to the opening bracket."""
    source, token, start = reader.source, reader.token, reader.place
    if reader.zone is not Zone.PATTERN:
        return False
    bracket = reader.brackets[-1]
    if bracket.expect not in _MORE:
        raise reader.expected(bracket.expect.value.strip())
    if any(each.clause == "WINDOW" for each in reader.brackets):
        raise source.error(f"a {token.word} inside another window", token, "window")
    reader.skip()
    at = reader.token
    name = _read_name(reader, "a window" if token.word == "WINDOW" else "a stream")
    if token.word == "STREAM":
        stream, name = name, f"window {len(source.windows) + 1}"
        source.windows[name] = _read_window(reader, stream)
    elif name not in source.windows:
        hint = f"declare it: FROM NAMED WINDOW {name} ON STREAM <...> [RANGE PT10S STEP PT5S]"
        raise source.error(f"there is no window {name}", at, "window", hint)
    if reader.token.text != "{":
        raise reader.expected("'{' after a window")
    source.constants[start] = name
    source.write("GRAPH", start)
    source.write(f"<t:{start}>", start)
    bracket.expect = Expect.STATEMENT
    bracket.is_empty = False
    reader.opens_window = True
    return True


def _read_name(reader: Reader, what: str) -> str:
    if reader.token.kind not in _NAMES:
        raise reader.expected(f"the IRI of {what}")
    name = f"<{reader.iri(reader.token)}>"
    reader.skip()
    return name


def _read_word(reader: Reader, word: str, before: str) -> None:
    if reader.token.word != word:
        raise reader.expected(f"{word} after {before}")
    reader.skip()


def _read_window(reader: Reader, stream: str) -> Window:
    """``[RANGE … SLIDE …]``, ``[NOW]``, ``[TRIPLES n]``."""
    opening = reader.token
    if opening.text != "[":
        raise reader.expected("'[' and a window")
    reader.skip()
    token = reader.token
    word = token.word
    if word == "RANGE":
        reader.skip()
        word = reader.token.word if reader.token.word in ("TRIPLES", "UNBOUNDED") else "RANGE"
    try:
        window = _FORM[word](reader, stream) if word in _FORM else None
    except WindowError as problem:
        raise reader.source.error(str(problem), token, "window") from None
    if window is None:
        raise reader.source.error(f"no window starts with {token}", token, "window", _FORMS)
    if reader.token.text != "]":
        raise _unexpected(reader, reader.token)
    reader.skip()
    return window


def _unexpected(reader: Reader, token: Token) -> QueryError:
    return reader.source.error(f"a window cannot go on with {token}", token, "window", _FORMS)


def _read_range(reader: Reader, stream: str) -> Window:
    width = _read_duration(reader)
    return Window(width, _read_slide(reader), stream=stream)


def _read_unbounded(reader: Reader, stream: str) -> Window:
    reader.skip()
    slide = _read_slide(reader)
    if slide is None:
        raise reader.expected("SLIDE and a duration, for a window without bounds")
    return Window.landmark(slide, stream=stream)


def _read_now(reader: Reader, stream: str) -> Window:
    reader.skip()
    return Window.now(_read_slide(reader), stream=stream)


def _read_triples(reader: Reader, stream: str) -> Window:
    reader.skip()
    if reader.token.kind is not TokenKind.INTEGER:
        raise reader.expected("a number of triples")
    count = int(reader.token.text)
    reader.skip()
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
        reader.skip()
        return None
    if reader.token.word not in _STEPS:
        return None
    reader.skip()
    return _read_duration(reader)


def _read_duration(reader: Reader) -> int:
    """The text up to the next word of the window: ``10s`` is a number and a word to the lexer."""
    first = last = reader.token
    while reader.token.word not in _ENDS:
        if reader.token.kind not in (TokenKind.WORD, TokenKind.INTEGER, TokenKind.DECIMAL):
            raise _unexpected(reader, reader.token)
        last = reader.token
        reader.skip()
    if last.word in _ENDS:
        raise reader.expected("a duration")
    text = reader.source.lexer.text[first.start : last.start + len(last.text)]
    try:
        return read_span(text)
    except WindowError as problem:
        raise reader.source.error(str(problem), first, "window") from None
