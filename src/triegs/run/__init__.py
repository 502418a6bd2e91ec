"""Runs queries over an input: reads events, applies epochs, writes answers.

Start with `driver`: `epochs` feeds the engine, `reporter` reads it and writes answers, `bookmarks`
makes runs resumable, `stop` and `followed_file` determine where an input ends.
"""
