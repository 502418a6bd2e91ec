"""Settings of a server, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and pace of a server. Sizes are in bytes, times in seconds.

    An epoch is published at once if the last one is at least `epoch_every_s` old; otherwise
    requests gather until then, or until they have `epoch_rows` rows.
    """

    epoch_every_s: float = 0.02
    epoch_rows: int = 65_536
    #: Bodies that are being read or wait for their epoch, together.
    queue_bytes: int = 256 * MIB
    #: One body, and one body when decompressed.
    body_bytes: int = 64 * MIB
    #: A body must have arrived within this time.
    body_s: float = 60.0
    query_bytes: int = 256 * 1024
    #: Older epochs that the engine keeps, so that readers can resume.
    retain_epochs: int = 0
    #: How long a response may keep its snapshot.
    lease_s: float = 60.0
    #: How long a stop waits for requests that are under way.
    drain_s: float = 20.0
    #: How many idempotency keys are remembered.
    keys: int = 10_000
    #: Threads that read bodies.
    threads: int = 8
    #: Responses with results at a time, each with its thread and its epoch: of one client, of all.
    client_responses: int = 16
    responses: int = 64
    #: Subscriptions of one client, and of all; each holds an epoch.
    client_subscribers: int = 500
    subscribers: int = 1_000
    #: How long a subscription lasts, or None. Clients connect again by themselves.
    subscription_s: float | None = None
    #: Requests per second of one client; 0 for any number.
    rate: float = 0.0
    #: Whether unregistered queries are answered, and how long each may hold up the updater.
    is_adhoc: bool = True
    adhoc_s: float = 5.0
