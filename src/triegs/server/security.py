"""Who may do what: bearer tokens with roles, from a file that is watched.

A line of the file is ``ROLE TOKEN`` or ``ROLE TOKEN NAME``; ``#`` begins a comment. The role is
``read`` (queries, snapshots, subscriptions), ``write`` (also events and watermarks) or ``admin``
(also registering and dropping queries, and holds). The name is for logs and limits.

Without tokens the server listens on the loopback interface only, and answers only requests whose
``Host`` is that interface: otherwise a web page could reach it through a name that it controls.
"""

from __future__ import annotations

import logging
from enum import IntEnum
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from triegs.errors import BadOption
from triegs.server.page_files import PATHS
from triegs.server.problems import Problem, write_problem

LOG = logging.getLogger("triegs.server")
LEAST_TOKEN = 16
#: Seconds between two looks at the file.
WATCH_S = 1.0
#: These say nothing of the data.
PROBES = frozenset({"/healthz", "/readyz"})
OPEN_PATHS = PROBES | frozenset(PATHS)
WRITE_PATHS = frozenset({"/events", "/watermark"})
#: Methods that change something, except where reading needs them.
CHANGING = frozenset({"PUT", "DELETE", "PATCH", "POST"})
#: A query is sent by POST as well.
READING_PATHS = frozenset({"/sparql", "/explain"})


class Role(IntEnum):
    """Each role includes those before it."""

    READ = 1
    WRITE = 2
    ADMIN = 3


class Token(NamedTuple):
    """A token, by its digest, with its role and name."""

    digest: bytes
    role: Role
    name: str


def read_tokens(text: str) -> list[Token]:
    """The tokens of a file; `BadOption` with the line that is wrong.

    >>> [(token.role.name, token.name) for token in read_tokens("read 0123456789abcdef wall")]
    [('READ', 'wall')]
    >>> read_tokens("root 0123456789abcdef")
    Traceback (most recent call last):
    triegs.errors.BadOption: token file, line 1: the role must be read, write or admin
    """
    found: list[Token] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        problem = ""
        if words[0].upper() not in Role.__members__:
            problem = "the role must be read, write or admin"
        elif len(words) not in (2, 3):
            problem = "write ROLE TOKEN or ROLE TOKEN NAME"
        elif len(words[1]) < LEAST_TOKEN:
            problem = f"a token must have at least {LEAST_TOKEN} characters"
        if problem:
            raise BadOption(f"token file, line {number}: {problem}")
        name = words[2] if len(words) == 3 else f"line {number}"
        digest = sha256(words[1].encode()).digest()
        if any(compare_digest(digest, other.digest) for other in found):
            raise BadOption(f"token file, line {number}: this token occurs twice")
        found.append(Token(digest, Role[words[0].upper()], name))
    if not found:
        raise BadOption("the token file has no token")
    return found


class Access:
    """The tokens of a server, or none; and the origins that browsers may call it from.

    The file is read again when it changes. A file that cannot be read, or is wrong, changes
    nothing: the tokens before it stay, and the log says so.
    """

    def __init__(self, path: Path | None = None, origins: tuple[str, ...] = ()) -> None:
        self._path = path
        self.origins = origins
        self._tokens: list[Token] = []
        self._stamp: tuple[int, int, int] | None = None
        self._looked = 0.0
        if path is not None:
            self._stamp = stamp(path)
            self._tokens = read_tokens(path.read_text(encoding="utf-8"))

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return self._path is None

    def find(self, text: str) -> Token | None:
        """The token of this text. Every token is compared, each in constant time."""
        self._watch()
        digest = sha256(text.encode()).digest()
        found = None
        for token in self._tokens:
            if compare_digest(digest, token.digest):
                found = token
        return found

    def _watch(self) -> None:
        if self._path is None or monotonic() - self._looked < WATCH_S:
            return
        self._looked = monotonic()
        try:
            now = stamp(self._path)
            if now != self._stamp:
                self._tokens = read_tokens(self._path.read_text(encoding="utf-8"))
                self._stamp = now
                LOG.info("reloaded %d tokens", len(self._tokens))
        except (OSError, ValueError) as problem:
            LOG.error("the token file was not reloaded: %s", problem)


def stamp(path: Path) -> tuple[int, int, int]:
    """Changes when the file does."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def find_role(method: str, path: str) -> Role:
    """The role that a request needs.

    >>> find_role("GET", "/queries/a"), find_role("POST", "/events"), find_role("PUT", "/queries/a")
    (<Role.READ: 1>, <Role.WRITE: 2>, <Role.ADMIN: 3>)
    """
    if path in WRITE_PATHS:
        return Role.WRITE
    if method in CHANGING and path not in READING_PATHS:
        return Role.ADMIN
    return Role.READ


class Guard:
    """Refuses requests that are not allowed, before their bodies are read.

    ``scope["client_name"]`` is then the name of the token, or the address.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            try:
                self._check(scope)
            except Problem as problem:
                if scope["type"] == "http":
                    await write_problem(problem)(scope, receive, send)
                else:
                    await send({"type": "websocket.close", "code": 4000 + problem.status})
                return
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        client = scope.get("client")
        scope["client_name"] = client[0] if client else ""
        if "transfer-encoding" in headers and "content-length" in headers:
            # h11 takes the first; what stands before the server might take the second.
            raise Problem(
                400, "the length of the body is ambiguous", headers={"Connection": "close"}
            )
        origin = headers.get("origin")
        if origin is not None and not self._is_allowed(origin, headers.get("host", "")):
            raise Problem(403, "requests from this origin are not allowed")
        if self.access.is_open:
            host = headers.get("host", "").rpartition(":")
            name = host[0] if host[2].isdecimal() and host[0] else headers.get("host", "")
            if not is_loopback(name):
                raise Problem(403, "this server has no tokens and answers on loopback only")
            return
        if scope["path"] in OPEN_PATHS:
            return
        kind, _, text = headers.get("authorization", "").partition(" ")
        token = self.access.find(text.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise Problem(
                401, "a token is needed", "send Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": 'Bearer realm="triegs"'},
            )  # fmt: skip
        needed = find_role(scope.get("method", "GET"), scope["path"])
        if token.role < needed:
            raise Problem(
                403, "the token has another role", f"it needs the role {needed.name.lower()}"
            )
        scope["client_name"] = token.name
        scope["role"] = token.role.name.lower()

    def _is_allowed(self, origin: str, host: str) -> bool:
        """Whether a browser may call from there: the server's own page, and what is configured."""
        return origin in self.access.origins or origin.partition("://")[2] == host
