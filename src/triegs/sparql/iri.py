"""IRI references made absolute (RFC 3986, section 5) and checked (RFC 3987).

>>> resolve("../c?d", "http://ex.org/a/b/x")
'http://ex.org/a/c?d'
>>> is_absolute("http://ex.org/é"), is_absolute("a/b"), is_absolute("http://ex.org/%zz")
(True, False, False)
"""

from __future__ import annotations

import re

_PARTS = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/?#]*))?"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_UNICODE = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 15)
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_PLAIN = rf"A-Za-z0-9\-._~!$&'()*+,;={_UNICODE}"
_PERCENT = "%[0-9A-Fa-f]{2}"
_SEGMENT = rf"(?:[{_PLAIN}:@]|{_PERCENT})"
_ABSOLUTE = re.compile(
    rf"""
    [A-Za-z][A-Za-z0-9+.\-]*:
    (?: //(?:(?:[{_PLAIN}:]|{_PERCENT})*@)?                       # user
        (?:\[[0-9A-Fa-fvV:.]+\]|(?:[{_PLAIN}]|{_PERCENT})*)       # host
        (?::[0-9]*)?(?:/{_SEGMENT}*)*                             # port, path
      | (?!//)(?:{_SEGMENT}|/)* )
    (?:\?(?:{_SEGMENT}|[/?{_PRIVATE}])*)?
    (?:\#(?:{_SEGMENT}|[/?])*)?
    """,
    re.VERBOSE,
)


def is_absolute(iri: str) -> bool:
    """Whether the text is an IRI with a scheme and only allowed characters."""
    return _ABSOLUTE.fullmatch(iri) is not None


def is_relative(reference: str) -> bool:
    """Whether the text is a relative reference with only allowed characters.

    >>> is_relative("p"), is_relative(":p"), is_relative("a b")
    (True, False, False)
    """
    base = "x://x/"
    return resolve(reference, base) != reference and is_absolute(resolve(reference, base))


def resolve(reference: str, base: str) -> str:
    """Resolve a reference against a base IRI.

    An invalid reference (``:x``, a first segment with a colon) is returned unchanged. So is an
    absolute IRI, with its dot segments, because data keeps them too.
    """
    given, under = _PARTS.fullmatch(reference), _PARTS.fullmatch(base)
    if given is None or under is None or given["scheme"] is not None:
        return reference
    _, authority, path, query, fragment = given.groups()
    if authority is not None:
        return _join(under["scheme"], authority, _without_dots(path), query, fragment)
    if ":" in path.split("/", 1)[0]:
        return reference
    authority = under["authority"]
    if not path:
        path = under["path"]
        query = under["query"] if query is None else query
    elif path.startswith("/"):
        path = _without_dots(path)
    else:
        path = _without_dots(_merge(path, under["path"], authority is not None))
    return _join(under["scheme"], authority, path, query, fragment)


def _merge(path: str, base: str, has_authority: bool) -> str:
    if has_authority and not base:
        return "/" + path
    return base[: base.rfind("/") + 1] + path


def _without_dots(path: str) -> str:
    """The path with ``.`` and ``..`` segments resolved."""
    if "." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")
    for position, segment in enumerate(segments):
        last = position == len(segments) - 1
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
            kept += [""] if last else []
        elif segment == ".":
            kept += [""] if last else []
        else:
            kept.append(segment)
    return "/".join(kept)


def _join(
    scheme: str | None, authority: str | None, path: str, query: str | None, fragment: str | None
) -> str:
    return "".join(
        [
            f"{scheme}:" if scheme is not None else "",
            f"//{authority}" if authority is not None else "",
            path,
            f"?{query}" if query is not None else "",
            f"#{fragment}" if fragment is not None else "",
        ]
    )
