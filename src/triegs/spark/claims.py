"""`read_claims` under its documented name; `triegs.spark.inbox.claims` defines it."""

from triegs.spark.inbox.claims import Claim, read_claims

__all__ = ["Claim", "read_claims"]
