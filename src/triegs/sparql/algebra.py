"""rdflib at work: the written-out text to SPARQL algebra, whatever the text.

rdflib's parser is recursive, a few hundred Python frames per ten triple patterns, so it runs in a
thread with a deep stack and a raised recursion limit. Both are given back at once.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from triegs.errors import QueryError
from triegs.sparql.follow import Zone
from triegs.sparql.lexer import TokenKind
from triegs.sparql.source import Source

#: Tried in turn: address space may be limited.
_STACK_BYTES = (512 << 20, 128 << 20, 32 << 20)
_FRAMES = 400_000
# The stack size of new threads and the recursion limit belong to the process.
_ONE_AT_A_TIME = threading.Lock()


def read_algebra(source: Source) -> Any:
    """The algebra of a query; `QueryError` at the token where rdflib could not go on.

    Time: about 2 ms for a small query, 0.2 s for 100 triple patterns.
    """
    from pyparsing import ParseException
    from rdflib.plugins.sparql.algebra import translateQuery
    from rdflib.plugins.sparql.parser import parseQuery

    try:
        return run_deep(lambda: translateQuery(parseQuery(source.text)).algebra)
    except ParseException as problem:
        raise _syntax_error(source, source.token_at(problem.loc)) from None
    except Exception as problem:
        # rdflib raises bare Exceptions where a text is grammatical and still makes no sense.
        raise source.error(f"this is no query: {problem}", source.tokens[0]) from None


def run_deep(work: Callable[[], Any]) -> Any:
    """Call a deeply recursive function on a stack of its own."""
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            outcome.append(work())
        except BaseException as problem:
            failure.append(problem)

    with _ONE_AT_A_TIME:
        frames = sys.getrecursionlimit()
        stack = threading.stack_size()
        try:
            sys.setrecursionlimit(max(frames, _FRAMES))
            thread = _start(target)
            threading.stack_size(stack)
            thread.join()
        finally:
            threading.stack_size(stack)
            sys.setrecursionlimit(frames)
    if failure:
        raise failure[0]
    return outcome[0]


def _start(target: Callable[[], None]) -> threading.Thread:
    """A thread with the largest stack that can be had."""
    for size in _STACK_BYTES:
        threading.stack_size(size)
        thread = threading.Thread(target=target, name="triegs-parse")
        try:
            thread.start()
        except RuntimeError:
            continue
        return thread
    raise MemoryError("no room for a stack to parse on")


_NAMES = "a variable, '(' or '*'"
_AFTER_WORD = {
    "SELECT": _NAMES, "DISTINCT": _NAMES, "REDUCED": _NAMES, "WHERE": "'{'", "ASK": "'{'",
    "BY": "a variable or an expression", "HAVING": "'(' or a function",
}  # fmt: skip

#: What rdflib was reading where it gave up, by the word or the zone of that token.
_WHAT = {
    Zone.PATTERN: "expected a complete triple pattern, FILTER, VALUES or '}' here",
    Zone.EXPRESSION: "this expression cannot be read",
    Zone.DATA: "this VALUES block cannot be read",
    Zone.TOP: "a query cannot go on like this",
}


def _syntax_error(source: Source, number: int) -> QueryError:
    token = source.tokens[number]
    if token.kind is TokenKind.END:
        return source.error("the query ends too early", token)
    before = source.tokens[number - 1].word if number else ""
    if before in _AFTER_WORD and source.zones[number] is Zone.TOP:
        return source.error(f"expected {_AFTER_WORD[before]} after {before}, found {token}", token)
    if token.word in ("FILTER", "HAVING", "GROUP", "LIMIT", "OFFSET", "SELECT"):
        return source.error(f"this {token.word} cannot be read to its end", token)
    return source.error(f"{_WHAT[source.zones[number]]}, found {token}", token)
