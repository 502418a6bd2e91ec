"""A small social network as a stream of posts, replies, likes and deletions."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

Update = tuple[str, str, str, str]

NAMESPACE = "http://example.org/"
PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo", "Ida", "Max", "Mia", "Noor")


def iri(name: str) -> str:
    return f"<{NAMESPACE}{name}>"


def generate_epochs(seed: int, epochs: int = 12, posts: int = 6) -> Iterator[list[Update]]:
    """Batches of updates, equal for equal seeds.

    Each epoch has new posts with creators, replies to recent posts, and likes. One event in ten is
    repeated, earlier likes and replies are deleted, and a few deletions are invalid.

    >>> first = next(generate_epochs(seed=1))
    >>> first == next(generate_epochs(seed=1)), {update[0] for update in first} <= {"+", "-"}
    (True, True)
    """
    random = Random(seed)
    written: list[str] = []
    stated: list[tuple[str, str, str]] = []
    for _ in range(epochs):
        batch: list[Update] = []
        for _ in range(posts):
            post = iri(f"post{len(written) + 1}")
            news = [(post, iri("hasCreator"), iri(random.choice(PEOPLE)))]
            if written:
                news.append((random.choice(written[-8:]), iri("hasReply"), post))
            written.append(post)
            liked = random.choice(written[-8:])
            news.append((liked, iri("likedBy"), iri(random.choice(PEOPLE))))
            news += [fact for fact in news if random.random() < 0.1]
            batch += [("+", *fact) for fact in news]
            stated += [fact for fact in news if "hasCreator" not in fact[1]]
        for _ in range(min(posts // 2, len(stated) // 8)):
            fact = stated.pop(random.randrange(len(stated)))
            batch.append(("-", *fact))
        if random.random() < 0.4:
            batch.append(("-", random.choice(written), iri("likedBy"), iri("Nobody")))
        yield batch
