"""Errors as responses: ``application/problem+json`` (RFC 9457).

A body says what is wrong with the request, and nothing of the machine: messages of `TriegsError`
are written for callers, but those that name files or memory are replaced, and any other exception
is a bare 500 whose trace goes to the log with the request's id.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from triegs.errors import (
    BadOption,
    BadTerm,
    DirectoryInUse,
    HistoryGone,
    InputError,
    InvalidUpdate,
    LogFailed,
    MemoryLimitReached,
    MultiplicityOverflow,
    PlanError,
    QueryError,
    SnapshotExpired,
    StateDamaged,
    StateError,
    TimeLimitReached,
    TriegsError,
    UnsupportedQuery,
    WindowError,
)

MEDIA_TYPE = "application/problem+json"
LOG = logging.getLogger("triegs.server")


class Problem(Exception):
    """A request that gets an error response.

    ``title`` names the kind of problem and ``detail`` this case; ``more`` are further members.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        *,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail or title)
        self.status = status
        self.title = title
        self.detail = detail
        self.more = more
        self.headers = dict(headers or {})
        if retry_after_s is not None:
            self.headers["Retry-After"] = str(retry_after_s)


#: The first class that fits decides: status, title, and whether the message is shown.
KINDS: tuple[tuple[type[TriegsError], int, str, bool], ...] = (
    (UnsupportedQuery, 400, "unsupported query", True),
    (QueryError, 400, "invalid query", True),
    (PlanError, 400, "impossible plan", True),
    (WindowError, 400, "invalid window or time", True),
    (BadOption, 400, "invalid option", True),
    (BadTerm, 400, "invalid term", True),
    (InputError, 400, "unreadable events", True),
    (InvalidUpdate, 422, "refused events", True),
    (HistoryGone, 410, "epoch is gone", True),
    (SnapshotExpired, 410, "the lease of the snapshot is over", False),
    (MultiplicityOverflow, 409, "a count exceeds 64 bits", True),
    (TimeLimitReached, 422, "the query takes too long", True),
    (MemoryLimitReached, 503, "the memory limit is reached", False),
    (LogFailed, 503, "the log cannot be written", False),
    (DirectoryInUse, 503, "the state is in use", False),
    (StateDamaged, 500, "the state is damaged", False),
    (StateError, 409, "not possible in this state", True),
)
RETRY_AFTER_S = 5


def describe_error(error: TriegsError) -> Problem:
    """The problem that an error of the engine is to a client."""
    found = next((each for each in KINDS if isinstance(error, each[0])), None)
    if found is None:
        return Problem(500, "the request failed")
    _, status, title, is_shown = found
    more: dict[str, Any] = {}
    detail = str(error) if is_shown else ""
    if isinstance(error, QueryError):
        detail = error.message
        more = {"line": error.line, "column": error.column, "construct": error.construct}
        if error.hint:
            more["hint"] = error.hint
    if isinstance(error, InputError) and error.line:
        more["line"] = error.line
    if isinstance(error, InvalidUpdate) and error.refused:
        more["problems"] = [{"row": row, "reason": str(why)} for row, why in error.refused[:10]]
    retry = RETRY_AFTER_S if status == 503 else None
    return Problem(status, title, detail, retry_after_s=retry, **more)


def write_problem(problem: Problem) -> Response:
    """The response of a problem."""
    body: dict[str, Any] = {"title": problem.title, "status": problem.status}
    if problem.detail:
        body["detail"] = problem.detail
    return JSONResponse(
        {**body, **problem.more}, problem.status, problem.headers, media_type=MEDIA_TYPE
    )


async def handle_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return write_problem(error)


async def handle_engine_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, TriegsError)
    problem = describe_error(error)
    if problem.status >= 500:
        LOG.error("the engine refused a request", exc_info=error)
    return write_problem(problem)


async def handle_http_error(request: Request, error: Exception) -> Response:
    """What routing refuses: an unknown path, or a method that a path does not have."""
    assert isinstance(error, HTTPException)
    titles = {404: "there is nothing at this path", 405: f"{request.method} is not possible here"}
    title = titles.get(error.status_code, error.detail)
    return write_problem(Problem(error.status_code, title, headers=error.headers))


async def handle_crash(request: Request, error: Exception) -> Response:
    """A fault of the server. Starlette logs the trace."""
    return write_problem(Problem(500, "the server failed; its log has the reason"))


HANDLERS: dict[Any, Any] = {
    Problem: handle_problem,
    TriegsError: handle_engine_error,
    HTTPException: handle_http_error,
    Exception: handle_crash,
}
