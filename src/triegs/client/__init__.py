"""A client of ``triegs serve``, with the names of `triegs.Engine` and `triegs.StandingQuery`.

`client` sends requests and repeats them if necessary, `queries` are queries of the server,
`streams` follow them.
"""

from triegs.client.client import Client, Outcome
from triegs.client.queries import RemoteQuery, RemoteSnapshot
from triegs.client.streams import AsyncEvents, Event, Events

__all__ = [
    "AsyncEvents",
    "Client",
    "Event",
    "Events",
    "Outcome",
    "RemoteQuery",
    "RemoteSnapshot",
]
