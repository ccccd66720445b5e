"""The page in a real Chromium, over a real provider: what a person does there, and what comes of it.

A tab that complained (an error, a broken policy, a message on its console) or asked anybody but our own edge fails its
test at the end. Without a Chromium on the machine nothing here can be shown, and all of it is skipped.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from repo_provider.httpd import Edge
from repo_provider.settings import Http
from tests.browser import CHROMIUM, Browser, Tab
from tests.connect import PATIENCE, ROOT, repository
from tests.repos import Files, Made, make_repo

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM HERE: the page is not tested (apt: chromium)")

TOKEN = "correct-horse-battery-staple"


class Site:
    """A repository behind an edge that runs in a thread."""

    def __init__(self, made: Made, **http: Any) -> None:
        self.made = made
        self._service = repository(made.path).service()
        self._edge = Edge(self._service, Http("127.0.0.1", 0, **http))
        self.url = self._edge.url
        self._thread = threading.Thread(target=self._edge.run)
        self._thread.start()

    def asking(self, goal: str, **fields: Any) -> str:
        """The address of the page with a question in it."""
        return f"{self.url}#{urlencode({'q': goal, 'f': 8, 't': 4000, **fields}, doseq=True)}"

    def stop(self) -> None:
        self._edge.stop()
        self._thread.join(PATIENCE)
        self._service.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


class Person:
    """Opens tabs, and looks at the end at what they did."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.expects: set[str] = set()
        """Complaints that belong to the test."""
        self.tabs: list[tuple[Tab, str]] = []

    def open(self, url: str, **how: Any) -> Tab:
        tab = self._browser.tab(**how)
        self.tabs.append((tab, url.partition("#")[0]))
        tab.open(url)
        return tab

    def looks_back(self) -> None:
        for tab, ours in self.tabs:
            abroad = [asked for asked in tab.requests if not asked.split()[1].startswith((ours, "data:"))]
            assert [] == abroad
            assert [] == [said for said in tab.complaints if not any(word in said for word in self.expects)]
            tab.command("Page.close")


@pytest.fixture
def person(browser: Browser) -> Iterator[Person]:
    person = Person(browser)
    yield person
    person.looks_back()


Serve = Callable[..., Site]


@pytest.fixture
def serve() -> Iterator[Serve]:
    sites: list[Site] = []

    def start(made: Made, **http: Any) -> Site:
        sites.append(Site(made, **http))
        return sites[-1]

    yield start
    for site in sites:
        site.stop()


RETRY = 'def retry_request(times):\n    """Send again, so many times."""\n    return {}\n'


def changing() -> Made:
    """A function that was written, rewritten, moved; beside it what else a question may find."""
    return make_repo(
        [
            ("2024-01-01", {"net.py": RETRY.format("times + 1"), "README.md": "# Requests\n\nHow to retry.\n"}),
            ("2024-06-01", {"net.py": RETRY.format("times + 2")}),
            ("2025-01-01", {"net.py": None, "client.py": RETRY.format("times + 2")}),
            ("2025-06-01", {"other.py": "def unrelated():\n    return 0\n"}),
        ]
    )


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One site for every test that changes nothing about it."""
    site = Site(changing())
    yield site
    site.stop()


ANSWERED = "document.querySelector('.card') && !document.body.classList.contains('busy')"


def code(tab: Tab) -> str:
    return str(tab.evaluate("[...document.querySelectorAll('pre')].map((found) => found.textContent).join('---\\n')"))


# --- asking ----------------------------------------------------------------------------------------------------


def test_a_question_is_answered_with_code_its_place_its_cost_and_its_reasons(person: Person, site: Site) -> None:
    tab = person.open(site.url)
    tab.until("document.activeElement.id === 'goal'")
    tab.write("retry request")
    tab.press("Enter")
    tab.until(ANSWERED)
    assert RETRY.format("times + 2") in code(tab)
    assert "client.py" in tab.text(".card h2")
    assert "retry_request" in tab.text(".card h2")
    assert "since 2024-06-01" == tab.text(".card .window > span")
    assert "names it defines" in tab.texts(".card:first-child .why li span:first-child")
    assert "of 4,000" in tab.text("#spent")
    spent = sum(int(text.split()[0]) for text in tab.texts(".foot > span:nth-child(2)"))
    assert f"{spent} tokens" in tab.text("#spent")
    assert len(tab.texts(".card")) == len(tab.texts("#cost a")) == len(tab.texts("#lanes li"))
    assert ["snippet", "symbol", "doc", "graph", "episode"] == tab.texts("#kinds label")


def test_what_is_shown_is_what_was_served(person: Person, serve: Serve) -> None:
    """In every language there is a sample of: colours never change, drop or repeat a character."""
    samples = sorted(path for path in (ROOT / "fixtures" / "languages").rglob("*") if path.is_file())
    texts: Files = {path.name: path.read_bytes() for path in samples if not path.name.endswith(".json")}
    site = serve(make_repo([("2026-01-01", texts)]))
    tab = person.open(site.asking("server client queue user name value", f=100, t=200_000))
    tab.until(ANSWERED)
    tab.evaluate("document.querySelectorAll('.more').forEach((more) => more.click())")
    shown = tab.evaluate("[...document.querySelectorAll('pre')].map((found) => found.textContent)")
    query = {"goal": "server client queue user name value", "max_frames": 100, "max_tokens": 200_000}
    asked = f"""fetch('explain', {{method: 'POST', headers: {{'content-type': 'application/json'}},
        body: {json.dumps(json.dumps({"type": "query", "query": query}))}}}).then((response) => response.json())"""
    frames = tab.evaluate(asked)["result"]["frames"]
    assert 20 < len(frames)
    assert [frame["content"].removesuffix("\n") + "\n" for frame in frames] == shown


def test_kinds_budgets_and_anchors_ask_again(person: Person, site: Site) -> None:
    tab = person.open(site.asking("retry"))
    tab.until(ANSWERED)
    tab.click("#kinds label.doc")
    tab.until(f"{ANSWERED} && [...document.querySelectorAll('.kind')].every((one) => one.innerText === 'doc')")
    tab.click("#kinds label.doc")
    tab.until(f"{ANSWERED} && document.querySelectorAll('.card.snippet').length > 0")
    tab.click("#anchor")
    tab.write("other.py")
    tab.press("Enter")
    tab.until(f"{ANSWERED} && document.querySelector('h2').innerText.includes('other.py')")
    assert ["other.py"] == tab.texts("#anchors li span")
    tab.evaluate("document.getElementById('frames').value = 1")
    tab.evaluate("document.getElementById('frames').dispatchEvent(new Event('change'))")
    tab.until(f"{ANSWERED} && document.querySelectorAll('.card').length === 1")


def test_an_error_of_the_provider_is_shown_in_its_words(person: Person, site: Site) -> None:
    tab = person.open(site.asking("retry", at="yesterday"))
    tab.until("document.getElementById('status').classList.contains('wrong')")
    assert "(bad_request)" in tab.text("#status")
    tab = person.open(site.asking("xylophone"))
    tab.until("document.getElementById('status').innerText")
    assert "Nothing here answers that." == tab.text("#status")


def test_a_provider_that_left_is_said_to_have(person: Person, serve: Serve) -> None:
    site = serve(changing())
    tab = person.open(site.asking("retry"))
    tab.until(ANSWERED)
    site.stop()
    person.expects.add("ERR_CONNECTION_REFUSED")
    tab.press("v")
    tab.until("document.getElementById('status').innerText.startsWith('The provider does not answer')")


# --- time ------------------------------------------------------------------------------------------------------


def test_the_slider_asks_again_as_of_then(person: Person, site: Site) -> None:
    tab = person.open(site.asking("retry request"))
    tab.until(ANSWERED)
    assert "Now, as the working tree stands" == tab.text("#when")
    tab.evaluate("document.getElementById('slider').focus()")
    tab.press("Home")
    tab.until(f"{ANSWERED} && document.querySelector('.range')?.innerText && location.hash.includes('at=2024-01-01')")
    tab.until("document.querySelector('pre').textContent.includes('times + 1')")
    assert "As of 2024-01-01 00:00 UTC" == tab.text("#when")
    assert "net.py" in tab.text("h2")
    assert "2024-01-01 to 2024-06-01" == tab.text(".window > span")
    tab.press("ArrowRight")
    tab.until("document.querySelector('pre').textContent.includes('times + 2')")
    assert "2024-06-01" in str(tab.evaluate("document.getElementById('slider').getAttribute('aria-valuetext')"))
    tab.press("End")
    tab.until(
        f"{ANSWERED} && !location.hash.includes('at=') && document.querySelector('h2').innerText.includes('client')"
    )
    tab.click("#slider", x=0.5)
    tab.until("location.hash.includes('at=2024-06-01')")
    tab.click("#now")
    tab.until("!location.hash.includes('at=')")
    tab.evaluate("document.getElementById('date').value = '2024-03-01'")
    tab.evaluate("document.getElementById('date').dispatchEvent(new Event('change'))")
    tab.until(f"{ANSWERED} && document.querySelector('pre').textContent.includes('times + 1')")
    assert "As of 2024-03-01 23:59 UTC" == tab.text("#when")


def test_windows_are_drawn_where_they_lie_on_the_line(person: Person, site: Site) -> None:
    tab = person.open(site.asking("retry request", at="2024-03-01T00:00:00Z"))
    tab.until(ANSWERED)
    bars = tab.evaluate("[...document.querySelectorAll('.bar')].map((bar) => [bar.style.left, bar.style.width])")
    left, width = (float(text.rstrip("%")) for text in bars[0])
    assert 0 == left
    assert 0.95 * 152 / 517 * 100 == pytest.approx(width, abs=0.1)  # days of its window, of those of the line


def test_the_ends_of_a_window_lead_to_what_stood_there_before_and_after(person: Person, site: Site) -> None:
    tab = person.open(site.asking("retry request"))
    tab.until(ANSWERED)
    tab.click(".step")
    tab.until("location.hash.includes('at=2024-05-31T23%3A59%3A59Z')")
    tab.until(f"{ANSWERED} && document.querySelector('pre').textContent.includes('times + 1')")
    assert ["›"] == tab.texts(".card:first-child .step")  # nothing was there before the first commit
    tab.click(".step")
    tab.until("location.hash.includes('at=2024-06-01T00%3A00%3A00Z')")
    tab.until(f"{ANSWERED} && document.querySelector('pre').textContent.includes('times + 2')")


# --- walking ---------------------------------------------------------------------------------------------------


def test_a_relation_walks_on_and_back_comes_back(person: Person, site: Site) -> None:
    tab = person.open(site.asking("retry request", at="2024-03-01T00:00:00Z"))
    tab.until(ANSWERED)
    before = tab.evaluate("location.hash")
    tab.evaluate("document.querySelectorAll('.links').forEach((links) => { links.open = true; })")
    tab.until("document.querySelector('.map .out .link')")
    assert "client.py today" in tab.texts(".map .out .link")
    tab.click(".map .out .link")
    tab.until("document.querySelector('#anchors li')?.innerText.includes('client.py')")
    tab.until(f"{ANSWERED} && location.hash.includes('client.py')")
    tab.evaluate("history.back()")
    tab.until(f"{ANSWERED} && location.hash === {json.dumps(before)} && !document.querySelector('#anchors li')")


def test_provenance_is_told_and_leads_to_its_place(person: Person, site: Site) -> None:
    tab = person.open(site.asking("retry request"))
    tab.until(ANSWERED)
    tab.click(".links summary")
    tab.until("document.querySelector('.links[open]')")
    assert ["file", "git"] == tab.texts(".card:first-child .what")
    assert "client.py" == tab.text(".card:first-child .links .link")
    digests = tab.evaluate("[...document.querySelectorAll('.links code')].map((code) => code.title)")
    assert all(digest.startswith("sha256:") for digest in digests)
    tab.click(".links ol .link")
    tab.until("document.querySelector('#anchors li')?.innerText.includes('client.py')")


# --- verdicts --------------------------------------------------------------------------------------------------


def test_verify_turns_frames_valid_stale_and_gone(person: Person, serve: Serve) -> None:
    made = changing()
    site = serve(made)
    tab = person.open(site.asking("retry request", k="snippet"))
    tab.until(ANSWERED)
    tab.click("#verify")
    tab.until("!document.querySelector('.verdict').hidden")
    assert {"valid"} == set(tab.texts(".verdict"))
    (made.path / "client.py").write_text(RETRY.format("times + 3"))
    tab.press("v")
    tab.until("document.querySelector('.card.stale')")
    assert "stale" == tab.text(".verdict")
    assert "sha256:" in str(tab.evaluate("document.querySelector('.verdict').title"))
    (made.path / "client.py").unlink()
    tab.press("v")
    tab.until("document.querySelector('.card.gone')")
    assert "Verified: " in tab.text("#status")


# --- who may look ----------------------------------------------------------------------------------------------


def test_a_token_is_asked_for_and_stays_in_memory(person: Person, serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    site = serve(changing(), token_file=str(tmp_path / "token"))
    person.expects.add("401")
    tab = person.open(site.asking("retry request"))
    tab.until("document.getElementById('door').open")
    assert "" == tab.text("#answer")
    tab.write("not-the-right-token")
    tab.press("Enter")
    tab.until("document.getElementById('door-note').innerText === 'That is not the token.'")
    tab.write(TOKEN)
    tab.press("Enter")
    tab.until(ANSWERED)
    tab.press("v")
    tab.until("document.querySelector('.card.valid')")
    kept = tab.evaluate(
        "[localStorage.length, sessionStorage.length, document.cookie, location.href.includes('horse')]"
    )
    assert [0, 0, "", False] == kept
    assert TOKEN not in str(tab.evaluate("document.documentElement.outerHTML"))
    assert all(TOKEN not in request for request in tab.requests)
    tab.command("Page.reload")
    tab.until("document.getElementById('door').open")


# --- hostile repositories --------------------------------------------------------------------------------------


def test_whatever_a_repository_says_stays_text(person: Person, serve: Serve) -> None:
    name = "<img src=x onerror=alert(1)> retry.py"
    text = 'def retry():\n    return "</script><script>alert(2)</script>\u202e<svg onload=alert(3)>"\n'
    commit = make_repo(
        [("2026-01-01", {name: text, "a\u202eb retry.md": "# <b>retry</b>\n\n[x](javascript:alert(4))\n"})]
    )
    site = serve(commit)
    tab = person.open(site.asking("retry <img src=x onerror=alert(5)>", a=f"<b>{name}"))
    tab.until(ANSWERED)
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert 0 == tab.evaluate(
        "document.querySelectorAll('img, b b, pre script, [onerror], [onload], a[href^=java]').length"
    )
    assert 1 == tab.evaluate("document.scripts.length")
    assert "</script><script>alert(2)</script>\ufffd<svg onload" in code(tab)
    assert name in tab.evaluate("document.querySelector('h2').textContent")
    assert "\u202e" not in tab.evaluate("document.documentElement.outerHTML.replace(/<script>[^]*/, '')")


# --- hands and eyes --------------------------------------------------------------------------------------------


def test_it_works_without_a_mouse(person: Person, site: Site) -> None:
    tab = person.open(site.asking("retry"))
    tab.until(ANSWERED)
    tab.evaluate("document.activeElement.blur()")
    tab.press("j")
    tab.until("document.activeElement.id === 'frame-1'")
    tab.press("j")
    tab.until("document.activeElement.id === 'frame-2'")
    tab.press("k")
    tab.until("document.activeElement.id === 'frame-1'")
    tab.press("[")
    tab.until("location.hash.includes('at=')")
    tab.press("n")
    tab.until("!location.hash.includes('at=')")
    tab.press("?")
    tab.until("document.getElementById('keys').open")
    tab.press("v")  # belongs to the dialog
    tab.evaluate("document.getElementById('keys').close()")
    assert [] == [text for text in tab.texts(".verdict") if text]
    tab.press("/")
    tab.until("document.activeElement.id === 'goal'")
    tab.write("a/b v?")
    assert "a/b v?" == tab.evaluate("document.getElementById('goal').value")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_it_fits_the_screen(person: Person, site: Site, width: int) -> None:
    tab = person.open(site.asking("retry request", at="2024-03-01T00:00:00Z"), width=width, height=800)
    tab.until(ANSWERED)
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    tab.until("document.querySelector('.map .link')")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


_CONTRAST = """
(() => {
  const bright = (colour) => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d');
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((one) => one / 255)
      .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(document.documentElement);
  const value = (name) => bright(style.getPropertyValue(name));
  const texts = ['--ink', '--soft', '--now', '--then', '--valid', '--stale', '--gone', '--snippet', '--symbol', '--doc',
    '--graph', '--episode', '--keyword', '--string', '--comment', '--call', '--type', '--number'];
  return texts.flatMap((text) => ['--paper', '--panel', '--sunk'].map((back) => {
    const [low, high] = [value(text), value(back)].sort((a, b) => a - b);
    return [`${text} on ${back}`, (high + 0.05) / (low + 0.05)];
  }));
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_every_colour_of_text_can_be_read(person: Person, site: Site, dark: bool) -> None:
    """WCAG AA: 4.5 to 1."""
    tab = person.open(site.url, dark=dark)
    assert {} == {pair: ratio for pair, ratio in tab.evaluate(_CONTRAST) if ratio < 4.5}
