"""The page, driven in Chromium: what a person does with it, by mouse and by keyboard."""

from __future__ import annotations

import json

import httpx2
import pytest
from tests.server.browser import Browser, browsing
from tests.server.conftest import NDJSON, PREFIXES, listening, write_lines

from triegs import Engine
from triegs.server.security import Access

KNOWS = "SELECT ?x ?y { ?x :knows ?y }"
NARROW = 390
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def browser(tab: Browser):
    """The tab, without what an earlier test left; the page must not report errors."""
    tab.open("about:blank")
    tab.problems.clear()
    tab.show(1280)
    yield tab
    assert tab.problems == []


def push(address: str, *facts: tuple, sign: str = "+") -> None:
    body = write_lines(*facts, sign=sign)
    assert httpx2.post(f"{address}/events", content=body, headers=NDJSON).status_code == 200


def count_of(browser: Browser, name: str) -> str:
    return browser.read(f"tr[data-query='{name}'] td.number")


def wait_for_text(browser: Browser, selector: str, text: str) -> None:
    found = f"(document.querySelector({json.dumps(selector)})?.innerText ?? '')"
    browser.wait(f"{found}.includes({json.dumps(text)})")


def test_a_query_is_registered_watched_and_dropped(browser: Browser):
    with listening(Engine(prefixes=PREFIXES, retain_epochs=4)) as (address, service):
        push(address, *[(f"a{number:03}", "knows", f"b{number:03}") for number in range(120)])
        browser.open(f"{address}/#/try")
        browser.write("#editor", KNOWS)
        wait_for_text(browser, "#verdict", "full-acyclic")
        browser.write("#query-name", "knows")
        browser.click(".register button")
        wait_for_text(browser, ".facts", "120 answers")
        assert service.engine.queries["knows"].keep == ("count", "slice")

        # Page through the answers: every answer is shown once.
        seen: set[str] = set()
        for page, range_text in enumerate(["1–50 of 120", "51–100 of 120", "101–120 of 120"]):
            if page:
                browser.click("[data-go=next]")
            wait_for_text(browser, ".pager .place", range_text)
            cells = browser.run(
                "[...document.querySelectorAll('.answers tbody tr')].map(r => r.innerText)"
            )
            seen |= {cell.split("\t")[1] for cell in cells}
        assert len(seen) == 120
        assert browser.run("document.querySelector('[data-go=next]').disabled")

        # Follow changes.
        browser.click("#tab-changes")
        wait_for_text(browser, "#panel", "waiting for the next change")
        push(address, ("new", "knows", "b1"))
        wait_for_text(browser, ".feed", ":new")
        assert "+1" in browser.read(".feed")
        push(address, ("new", "knows", "b1"), sign="-")
        wait_for_text(browser, ".feed", "−1")

        # The plan has live sizes.
        browser.click("#tab-plan")
        wait_for_text(browser, ".plan", "120 entries")
        push(address, ("c", "knows", "d"))
        wait_for_text(browser, ".plan", "121 entries")
        browser.click("#tab-explain")
        wait_for_text(browser, "#panel pre", "Class      full-acyclic")
        browser.click("#tab-graph")
        wait_for_text(browser, "#panel", "The first 40 of 121 answers")
        assert browser.run("document.querySelectorAll('.graph circle').length") == 80

        # The overview follows.
        browser.press("o")
        browser.wait("document.querySelector('tr[data-query=knows]')")
        assert count_of(browser, "knows") == "121"
        push(address, ("e", "knows", "f"))
        wait_for_text(browser, "tr[data-query=knows]", "122")
        wait_for_text(browser, "tr[data-query=knows]", "now")

        browser.click("tr[data-query=knows] a")
        browser.click(".danger")
        browser.wait("document.getElementById('drop-dialog').open")
        browser.click("#drop-sure")
        wait_for_text(browser, "#content", "No query is registered")
        assert "knows" not in service.engine.queries


def test_the_server_is_lost_and_comes_back(browser: Browser):
    engine = Engine(prefixes=PREFIXES)
    engine.register(KNOWS, "knows")
    with listening(engine) as (address, _):
        browser.open(f"{address}/#/query/knows")
        browser.click("#tab-changes")
        wait_for_text(browser, "#panel", "waiting for the next change")
    wait_for_text(browser, "#notice", "has not answered since")
    wait_for_text(browser, "#pulse", "connection lost")
    wait_for_text(browser, "#panel", "The connection was lost")
    again = Engine(prefixes=PREFIXES)
    again.register(KNOWS, "knows")
    with listening(again, port=int(address.rpartition(":")[2])) as (address, _):
        wait_for_text(browser, "#notice", "The server is back")
        wait_for_text(browser, "#panel", "Following")
        push(address, ("a", "knows", "b"))
        wait_for_text(browser, ".feed", ":a")
        wait_for_text(browser, ".facts", "1 answers")


def test_a_token_is_asked_for_and_its_role_is_kept_to(browser: Browser, tmp_path):
    path = tmp_path / "tokens"
    path.write_text("read 0123456789abcdef wall\nadmin fedcba9876543210 boss\n")
    engine = Engine(prefixes=PREFIXES)
    engine.register(KNOWS, "knows")
    with listening(engine, access=Access(path)) as (address, _):
        browser.open(address)
        browser.wait("document.getElementById('token-dialog')?.open")
        browser.write("#token", "wrong wrong wrong")
        browser.press("Enter")
        wait_for_text(browser, "#token-text", "no longer accepts this token")
        browser.write("#token", "0123456789abcdef")
        browser.press("Enter")
        browser.wait("document.querySelector('tr[data-query=knows]')")
        wait_for_text(browser, "footer", "role read")
        browser.run("location.hash = '#/query/knows'")
        browser.wait("document.querySelector('.danger.quiet')?.hidden")
        browser.run("location.hash = '#/try'")
        browser.wait("document.querySelector('.register')?.hidden")


def test_a_syntax_error_is_shown_at_its_place(browser: Browser):
    with listening(Engine(prefixes=PREFIXES)) as (address, _):
        push(address, ("a", "knows", "b"))
        browser.open(f"{address}/#/try")
        browser.write("#editor", "SELECT ?x {\n  ?x :knows ?y .\n  FILTR(?x)\n}")
        wait_for_text(browser, "#verdict", "Line 3")
        assert browser.read(".mirror mark") == "FILTR"
        browser.write("#editor", KNOWS)
        wait_for_text(browser, "#verdict", "full-acyclic")
        assert browser.read(".mirror mark") == ""
        browser.press("Enter", modifiers=2)  # Ctrl
        wait_for_text(browser, ".result", "1 answers")
        assert ":a\t:b\t1" in browser.read(".result tbody")


def test_keys_open_pages_and_tabs(browser: Browser):
    engine = Engine(prefixes=PREFIXES)
    engine.register(KNOWS, "knows")
    with listening(engine) as (address, _):
        browser.open(f"{address}/#/query/knows")
        browser.wait("document.querySelector('#tab-answers')")
        browser.run("document.querySelector('#tab-answers').focus()")
        browser.press("ArrowRight")
        browser.wait("document.querySelector('#tab-graph[aria-selected=true]')")
        browser.press("ArrowLeft")
        browser.wait("document.querySelector('#tab-answers[aria-selected=true]')")
        browser.press("t")
        browser.wait("document.activeElement.id === 'editor'")


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_in_both_colours(browser: Browser, dark: bool):
    engine = Engine(prefixes=PREFIXES)
    engine.register(KNOWS, "knows", keep=["count", "slice"])
    long = "http://ex/" + "long" * 40
    engine.apply([("+", f"<{long}>", "<http://ex/knows>", f"<{long}{n}>") for n in range(60)])
    with listening(engine) as (address, _):
        browser.show(NARROW, dark=dark)
        for place in ("", "try", *["query/knows"] * 6):
            browser.open(f"{address}/#/{place}")
            browser.wait("document.querySelector('#content h1')")
        for tab in ("answers", "graph", "changes", "plan", "explain", "text"):
            browser.click(f"#tab-{tab}")
            browser.wait("document.querySelector('#panel').children.length")
            assert browser.run("document.documentElement.scrollWidth") <= NARROW
            box = f"document.querySelector('#tab-{tab}').getBoundingClientRect()"
            assert 0 <= browser.run(f"{box}.left") < browser.run(f"{box}.right") <= NARROW
        shade = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)[0]")
        assert (int(shade) < 60) == dark
