"""Rules that a linter does not know: words, lines of a file, parameters of a function."""

from __future__ import annotations

import ast
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = tomllib.loads((Path(__file__).parent / "rules.toml").read_text(encoding="utf-8"))
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# The change log is history: it may use the words of its time.
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    if page.name != "CHANGELOG.md"
]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_file(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def find_lines(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> list[str]:
    """Where a pattern occurs in sources and pages: ``file:line``."""
    found = []
    for path in [*SOURCES, *PAGES]:
        text = read(path)
        starts = [match.start() for match in re.finditer(pattern, text, flags)]
        found += [f"{name_file(path)}:{text.count(chr(10), 0, start) + 1}" for start in starts]
    return found


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def read_prose(path: Path) -> str:
    """The comments and texts of a source file: in code the words of a phrase may be names."""
    with tokenize.open(path) as file:
        tokens = list(tokenize.generate_tokens(file.readline))
    return "\n".join(t.string for t in tokens if t.type in (tokenize.COMMENT, tokenize.STRING))


@cache
def read_lower_case() -> dict[Path, str]:
    """All pages, and the prose of all sources; a search that ignores case is three times slower."""
    pages = {page: read(page).lower() for page in PAGES}
    return pages | {path: read_prose(path).lower() for path in SOURCES}


def find_missing_answers() -> set[str]:
    """What "Where is …?" in CONTRIBUTING.md names and is not in its folder: modules, classes."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    missing = set()
    for folder, start in re.findall(r"^\|[^|]+\| `([\w/]+)/` \| (.+) \|$", text, re.MULTILINE):
        modules = sorted((ROOT / "src" / "triegs" / folder).rglob("*.py"))
        for name in re.findall(r"`([\w.]+)`", start):
            if name.endswith(".py"):
                is_there = any(module.name == name for module in modules)
            else:
                is_there = any(f"class {name}" in module.read_text("utf-8") for module in modules)
            if not is_there:
                missing.add(f"{folder}/{name}")
    return missing


def list_functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function below a node, named with the classes and functions around it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if isinstance(node, Function):
                yield name, node
            yield from list_functions(node, f"{name}.")
        else:
            yield from list_functions(node, prefix)


def count_parameters(function: Function) -> int:
    """All but ``self`` and ``cls``."""
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return sum(each is not None and each.arg not in {"self", "cls"} for each in named)


def find_long_functions() -> set[tuple[str, str]]:
    """The functions with more parameters than the rule allows: file and name."""
    return {
        (name_file(path), name)
        for path in SOURCES
        for name, function in list_functions(ast.parse(path.read_text(encoding="utf-8")))
        if count_parameters(function) > RULES["parameters"]["most"]
    }


@pytest.mark.parametrize("name", sorted(RULES["names"]))
def test_replaced_names_do_not_come_back(name: str) -> None:
    # Whole words. Python searches ten times faster for what begins with a letter than with a "\b".
    found = find_lines(rf"{name}\b(?<!\w{name})")
    assert found == [], f"write {RULES['names'][name]!r} instead"


@pytest.mark.parametrize("phrase", sorted(RULES["phrases"]))
def test_replaced_phrases_do_not_come_back(phrase: str) -> None:
    words = [re.escape(word) for word in phrase.lower().split()]
    pattern = re.compile(r"\b" + r"[\s#]+".join(words) + r"\b")
    texts = read_lower_case()
    found = [name_file(path) for path, text in texts.items() if pattern.search(text)]
    assert found == [], f"write {RULES['phrases'][phrase]!r} instead"


def test_where_is_names_what_is_there() -> None:
    assert find_missing_answers() == set()


def test_no_source_file_is_too_long() -> None:
    most = RULES["lines"]["most"]
    long = {
        name_file(path)
        for path in SOURCES
        if len(path.read_text(encoding="utf-8").splitlines()) > most
    }
    assert long == {*RULES["lines"]["exceptions"]}, f"at most {most} lines, exceptions aside"


def test_no_function_has_too_many_parameters() -> None:
    allowed = {name for names in RULES["parameters"]["exceptions"].values() for name in names}
    found = find_long_functions()
    assert sorted(each for each in found if each[1] not in allowed) == []
    assert allowed - {name for _, name in found} == set(), "these are no exceptions any more"
