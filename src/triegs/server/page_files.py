"""The page at ``/``: fixed files of this package, which need no network and no other program.

Only the files listed here are served, by exact path. The page is open to everybody, because a
browser sends no token when it opens a page; it contains no data, and asks for a token if the server
has any.
"""

from __future__ import annotations

from hashlib import blake2b
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from triegs.server.endpoints import Answer, Endpoint, Operation
from triegs.server.parameters import Parameters

#: By path, and the media type of each.
FILES = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "main.js": "text/javascript; charset=utf-8",
    "server.js": "text/javascript; charset=utf-8",
    "dom.js": "text/javascript; charset=utf-8",
    "overview.js": "text/javascript; charset=utf-8",
    "query.js": "text/javascript; charset=utf-8",
    "answers.js": "text/javascript; charset=utf-8",
    "feed.js": "text/javascript; charset=utf-8",
    "graph.js": "text/javascript; charset=utf-8",
    "try.js": "text/javascript; charset=utf-8",
}
PATHS = {"/" if name == "index.html" else f"/page/{name}": name for name in FILES}
#: Nothing from elsewhere, nothing inline, in no other page's frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def list_endpoints() -> list[Endpoint]:
    return [make_endpoint(path, name) for path, name in PATHS.items()]


def make_endpoint(path: str, name: str) -> Endpoint:
    body = files("triegs.server").joinpath("page", name).read_bytes()
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'

    async def get_file(request: Request, given: Parameters) -> Response:
        """A file of the page."""
        headers = {**HEADERS, "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=FILES[name])

    answers = {
        200: Answer("The file.", (FILES[name].partition(";")[0],), headers=["ETag"]),
        304: Answer("The browser has it.", ()),
    }
    return Endpoint(path, {"GET": Operation(get_file, f"The page: {name}", answers)})
