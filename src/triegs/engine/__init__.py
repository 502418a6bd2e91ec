"""The engine: register queries, apply epochs, push timed events, read snapshots. Read this first.

```
updates ──► dictionary (terms to ids) ──► maintain (one pass of differences) ──► publish ──► read
```
`engine` is the public class and only delegates. `state` holds what the other modules share:
`registration` adds and closes queries, `epochs` applies updates, `event_time` moves watermarks,
`aggregates` makes and closes window aggregates.
"""

from triegs.engine.engine import Engine
from triegs.engine.registration import warn_about

__all__ = ["Engine", "warn_about"]
