"""Requests that are repeated until they are answered, and errors as exceptions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx2

from triegs.errors import HistoryGone, QueryError, RequestFailed, UnsupportedQuery

#: Answers after which a request is sent again.
PASSING = frozenset({429, 502, 503, 504})
LONGEST_PAUSE_S = 10.0


class Transport:
    """Sends requests to one server.

    A request is repeated up to `retries` times if the connection fails or the server is busy; the
    pauses double, unless the server asks for others. So only requests that may be repeated go
    through here.
    """

    def __init__(self, url: str, token: str | None, timeout_s: float, retries: int) -> None:
        self.url = url.rstrip("/")
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.timeout_s = timeout_s
        self._retries = retries
        self._client = httpx2.Client(base_url=self.url, headers=self.headers, timeout=timeout_s)

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx2.Response:
        """Send a request and return its response; an error response is raised as an exception."""
        given = {name: write(value) for name, value in (params or {}).items() if value is not None}
        for attempt in range(self._retries + 1):
            is_last = attempt == self._retries
            pause_s = min(0.1 * 2**attempt, LONGEST_PAUSE_S)
            try:
                response = self._client.request(
                    method, path, params=given, headers=dict(headers or {}), content=content
                )
            except httpx2.TransportError as problem:
                if is_last:
                    raise RequestFailed(
                        0, "the server cannot be reached", str(problem)
                    ) from problem
            else:
                if response.status_code not in PASSING or is_last:
                    check(response)
                    return response
                asked = response.headers.get("retry-after", "")
                pause_s = float(asked) if asked.isdecimal() else pause_s
            time.sleep(min(pause_s, LONGEST_PAUSE_S))
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        self._client.close()


def write(value: Any) -> Any:
    """A parameter as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def check(response: httpx2.Response) -> None:
    """Raise the error of a response, if it is one."""
    if response.status_code < 400:
        return
    try:
        body = response.json()
    except ValueError:
        body = {}
    title = body.get("title") or f"status {response.status_code}"
    detail = body.get("detail", "")
    if "column" in body:
        kind = UnsupportedQuery if title.startswith("unsupported") else QueryError
        raise kind(
            detail, line=body["line"], column=body["column"],
            construct=body.get("construct", ""), hint=body.get("hint", ""),
        )  # fmt: skip
    if response.status_code == 410:
        raise HistoryGone(detail or title)
    raise RequestFailed(response.status_code, title, detail)
