"""Windows over streams of timed events: what arrives and what expires, slide by slide.

Read `windows` first: it ties the other modules together.
"""
