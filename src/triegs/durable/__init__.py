"""What survives: a log of everything that changes an engine, checkpoints, and recovery.

`triegs.Engine.open` is the way in; `triegs.durable.journal` is the text to read first, and
`docs/durability.md` says what is promised.
"""
