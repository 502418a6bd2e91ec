"""The vocabulary of the social network: names, places, tags, and the spelling of its terms.

The code of a term is its kind and a number: ``kind << SHIFT | number``. Persons, forums and
messages are numbered in order of creation; names, places and tags by their index in the lists here;
dates and times by their milliseconds.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from triegs.workloads.draw import Numbers

if TYPE_CHECKING:
    import pyarrow as pa

BASE = "http://www.ldbc.eu/ldbc_socialnet/1.0/"
VOCABULARY = f"{BASE}vocabulary/"
DATA = f"{BASE}data/"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
DATE_TYPE = "http://www.w3.org/2001/XMLSchema#dateTime"
INTEGER_TYPE = "http://www.w3.org/2001/XMLSchema#integer"
SHIFT = 48


class Kind(IntEnum):
    """The kind of term that a code represents."""

    PERSON = 0
    FORUM = 1
    POST = 2
    COMMENT = 3
    TAG = 4
    CITY = 5
    COUNTRY = 6
    CLASS = 7
    FIRST_NAME = 8
    LAST_NAME = 9
    DATE = 10
    TIME = 11


class Predicate(IntEnum):
    """The labels of the stream, named as in the benchmark's vocabulary."""

    TYPE = 0
    FIRST_NAME = 1
    LAST_NAME = 2
    CREATION_DATE = 3
    IS_LOCATED_IN = 4
    HAS_INTEREST = 5
    KNOWS = 6
    HAS_MODERATOR = 7
    HAS_MEMBER = 8
    CONTAINER_OF = 9
    HAS_CREATOR = 10
    HAS_TAG = 11
    REPLY_OF = 12
    LIKES = 13


def spell_predicate(name: str) -> str:
    return f"<{VOCABULARY}{name}>"


PREDICATES = tuple(
    TYPE
    if predicate is Predicate.TYPE
    else spell_predicate(first.lower() + "".join(part.title() for part in rest))
    for predicate in Predicate
    for first, *rest in [predicate.name.split("_")]
)


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


#: The classes of things: indices into this list are the numbers of `Kind.CLASS`.
CLASSES = ("Person", "Forum", "Post", "Comment")

FIRST_NAMES = _split(
    "Ana Ben Chen Dina Emil Fatima Goran Hana Ivan Jan Kim Lena Max Nina Otto Priya Quentin Rosa "
    "Sami Tara Uwe Vera Wei Xenia Yan Zoe Abdul Bryn Carmen Deepak Eva Femi Greta Hiro Ines Jun "
    "Katja Luis Mia Noor Olga Pedro Ravi Sara Tom Ulla Viktor Wanda Yuki Zainab"
)
LAST_NAMES = _split(
    "Almeida Bauer Costa Dubois Endo Fischer Garcia Hoang Ito Jensen Khan Lopez Muller Nguyen "
    "Okafor Patel Qureshi Rossi Sato Tanaka Ueda Varga Wang Xu Yilmaz Zhang Andersen Bose Cohen "
    "Diaz Eriksen Ferrari Gupta Haddad Ivanov Johansson Kim Larsen Moreau Novak Oliveira Petrov "
    "Quispe Reyes Singh Torres Umar Volkov Weber Yamada Zhou Adeyemi Baker Chavez Dang Evans "
    "Fofana Green Hansen Iqbal"
)

#: Continent, then country, then its cities, largest first.
PLACES = {
    "Asia": {
        "India": ("Mumbai", "Delhi", "Chennai", "Pune", "Jaipur"),
        "China": ("Shanghai", "Beijing", "Wuhan", "Xian", "Dalian"),
        "Vietnam": ("Hanoi", "Hue", "Danang"),
        "Japan": ("Tokyo", "Osaka", "Kobe"),
        "Pakistan": ("Karachi", "Lahore", "Multan"),
    },
    "Europe": {
        "Germany": ("Berlin", "Hamburg", "Leipzig", "Bonn"),
        "France": ("Paris", "Lyon", "Nice"),
        "Italy": ("Rome", "Milan", "Turin"),
        "Spain": ("Madrid", "Seville", "Bilbao"),
        "Poland": ("Warsaw", "Krakow", "Gdansk"),
        "Norway": ("Oslo", "Bergen"),
    },
    "Africa": {
        "Nigeria": ("Lagos", "Kano", "Abuja"),
        "Egypt": ("Cairo", "Luxor"),
        "Kenya": ("Nairobi", "Mombasa"),
    },
    "America": {
        "Brazil": ("Recife", "Manaus", "Santos"),
        "Mexico": ("Puebla", "Merida"),
        "Canada": ("Toronto", "Ottawa", "Regina"),
        "Peru": ("Lima", "Cusco"),
    },
    "Oceania": {"Australia": ("Sydney", "Perth", "Hobart"), "Samoa": ("Apia",)},
}

#: Tag class, then its tags; the first half of a list is more popular than the second.
TAGS = {
    "Music": _split("Jazz Opera Reggae Techno Blues Choir Tango Piano Violin Drums"),
    "Sport": _split("Football Chess Cricket Tennis Rowing Judo Fencing Hockey Surfing Climbing"),
    "Film": _split("Western Noir Comedy Anime Documentary Musical Silent Horror"),
    "Science": _split("Astronomy Botany Genetics Geology Optics Logic Ecology Chemistry"),
    "Food": _split("Bread Curry Noodles Coffee Cheese Olives Sushi Tea Honey Chili"),
    "Travel": _split("Trains Sailing Hiking Camping Islands Deserts Museums Ferries"),
    "Computing": _split("Databases Graphs Compilers Networks Robots Cryptography Python Spark"),
    "Literature": _split("Poetry Novels Drama Essays Fables Sonnets Haiku Satire"),
    "History": _split("Rome Vikings Silk Printing Maps Castles Trade Voyages"),
    "Nature": _split("Birds Whales Forests Rivers Volcanoes Bees Wolves Corals"),
}
TAG_CLASS_PARENTS = {
    "Culture": ("Music", "Film", "Literature", "History"),
    "Knowledge": ("Science", "Computing"),
    "Leisure": ("Sport", "Food", "Travel", "Nature"),
}

COUNTRIES = tuple(country for part in PLACES.values() for country in part)
_PAIRS = [(c, city) for part in PLACES.values() for c, cities in part.items() for city in cities]
CITIES = tuple(city for _, city in _PAIRS)
CITY_COUNTRIES: Numbers = np.array([COUNTRIES.index(country) for country, _ in _PAIRS], np.int64)
# Interleaved, so that the popular tags (the first ones) cover all classes.
TAG_NAMES = tuple(
    tags[index]
    for index in range(max(map(len, TAGS.values())))
    for tags in TAGS.values()
    if index < len(tags)
)

_NUMBERED = {
    Kind.PERSON: f"<{DATA}pers",
    Kind.FORUM: f"<{DATA}forum",
    Kind.POST: f"<{DATA}post",
    Kind.COMMENT: f"<{DATA}comm",
}


def _spell_all(folder: str, names: tuple[str, ...]) -> list[str]:
    return [f"<{BASE}{folder}/{name}>" for name in names]


@cache
def list_words() -> dict[Kind, pa.Array]:
    """The terms of each kind that has a list."""
    import pyarrow as pa

    return {
        kind: pa.array(terms)
        for kind, terms in {
            Kind.TAG: _spell_all("tag", TAG_NAMES),
            Kind.CITY: _spell_all("place", CITIES),
            Kind.COUNTRY: _spell_all("place", COUNTRIES),
            Kind.CLASS: _spell_all("vocabulary", CLASSES),
            Kind.FIRST_NAME: [f'"{name}"' for name in FIRST_NAMES],
            Kind.LAST_NAME: [f'"{name}"' for name in LAST_NAMES],
        }.items()
    }


def spell(codes: Numbers) -> pa.Array:
    """The terms of codes, in N-Triples form. Cost: a sort, and one text per distinct code.

    >>> spell(np.array([7, Kind.CITY << SHIFT | 5, Kind.DATE << SHIFT | 1262304000123]))[2].as_py()
    '"2010-01-01T00:00:00.123Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    """
    import pyarrow as pa

    different, inverse = np.unique(codes, return_inverse=True)
    kinds = different >> SHIFT  # in order, since the kind is the upper part
    numbers = different & ((1 << SHIFT) - 1)
    parts = [
        _spell_kind(Kind(kind), numbers[np.searchsorted(kinds, kind) :][: (kinds == kind).sum()])
        for kind in np.unique(kinds).tolist()
    ]
    return pa.concat_arrays(parts or [pa.array([], pa.string())]).take(pa.array(inverse))


def _spell_kind(kind: Kind, numbers: Numbers) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind in _NUMBERED:
        texts = pa.array(numbers).cast(pa.string())
        return pc.binary_join_element_wise(_NUMBERED[kind], texts, ">", "")
    if kind is Kind.DATE:
        dates = np.datetime_as_string(numbers.astype("datetime64[ms]"))
        return pc.binary_join_element_wise('"', pa.array(dates), f'Z"^^<{DATE_TYPE}>', "")
    if kind is Kind.TIME:
        texts = pa.array(numbers).cast(pa.string())
        return pc.binary_join_element_wise('"', texts, f'"^^<{INTEGER_TYPE}>', "")
    return list_words()[kind].take(pa.array(numbers))


def list_static() -> list[tuple[str, str, str]]:
    """The static facts: the locations of cities and countries, and the classes of tags.

    >>> len(list_static())
    174
    """
    triples = []
    part, kind, above = map(spell_predicate, ("isPartOf", "hasType", "isSubclassOf"))
    for continent, countries in PLACES.items():
        for country, cities in countries.items():
            triples.append((country, part, continent))
            triples += [(city, part, country) for city in cities]
    places = [(f"<{BASE}place/{a}>", b, f"<{BASE}place/{c}>") for a, b, c in triples]
    tags = [
        (f"<{BASE}tag/{tag}>", kind, f"<{BASE}tagclass/{name}>")
        for name, names in TAGS.items()
        for tag in names
    ]
    classes = [
        (f"<{BASE}tagclass/{name}>", above, f"<{BASE}tagclass/{parent}>")
        for parent, names in TAG_CLASS_PARENTS.items()
        for name in names
    ]
    return places + tags + classes
