"""Durability: a log of every change to an engine, checkpoints, and recovery.

`triegs.Engine.open` is the entry point. Read `journal` first; `protocol` is what this package needs
of an engine. `docs/durability.md` has the guarantees.
"""
