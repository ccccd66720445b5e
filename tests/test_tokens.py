"""Counting for real models: where vocabularies come from, and what a count promises."""

from __future__ import annotations

import gzip
import io
import os
import socket
import subprocess
import sys
import types
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from repo_provider import tokens
from repo_provider.errors import BadRequest, Unavailable
from repo_provider.frames import Origin, build, select
from repo_provider.model import BlobId, Hit, Span, Text
from repo_provider.model import Path as RepositoryPath
from repo_provider.protocol import ContextFrame, ContextQuery, ContextQueryResult
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from repo_provider.tokens import (
    Counts,
    Found,
    Tokenizer,
    add,
    fetch,
    find,
    listed,
    tokenizer,
    tokenizer_name,
    vocabulary,
)
from tests.faults import fault
from tests.repos import Made, make_repo
from tests.spec import requirement


@pytest.fixture(autouse=True)
def unplugged(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here, and nothing it tests, may reach out."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something tried to open a connection")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_PACKAGES", ())


LOADED = {name: tokenizer(name) for name in tokens.NAMES}
"""From the package that the extra `tokens` brings."""


LOADED_FOUND = Found("o200k_base", LOADED["o200k_base"]._path, "directory")


def bytes_of(name: str) -> bytes:
    found = find(name)
    assert found is not None
    with gzip.open(found.path) as file:
        return file.read()


LOADED_BYTES = {name: bytes_of(name) for name in tokens.NAMES}


# --- vocabularies ----------------------------------------------------------------------------------------------


def test_a_tokenizer_has_one_name_with_and_without_its_maker() -> None:
    assert "o200k_base" == tokenizer_name("o200k_base") == tokenizer_name("openai:o200k_base")
    for wrong in ("", "gpt-4", "openai:", "o200k", "anthropic:o200k_base", "__builtins__"):
        with pytest.raises(BadRequest, match="known are cl100k_base, o200k_base") as failure:
            tokenizer_name(wrong)
        assert "unknown_tokenizer" == failure.value.reason


def test_tiktoken_itself_says_which_bytes_it_expects() -> None:
    described = vocabulary("cl100k_base")
    assert "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7" == described.sha256
    assert described.url.startswith("https://")
    assert described.url.endswith("/cl100k_base.tiktoken")
    assert "9b5ad71b2ce5302211f9c61530b329a4922fc6a4" == described.cached_as  # as tiktoken's own cache names it
    assert 100_257 == described.special["<|endoftext|>"]


def test_an_installed_package_is_found_and_not_imported() -> None:
    assert ["bpe_openai", "bpe_openai"] == [found.origin for _, found in listed() if found is not None]
    assert "bpe_openai" not in sys.modules


@requirement("P6")
@fault(50)
def test_nothing_is_downloaded_when_there_is_no_vocabulary(no_packages: None, tmp_path: Path) -> None:
    assert find("o200k_base", [str(tmp_path), str(tmp_path / "none")]) is None
    assert [("cl100k_base", None), ("o200k_base", None)] == listed([str(tmp_path)])
    with pytest.raises(Unavailable, match="tokenizer add FILE") as failure:
        tokenizer("o200k_base", [str(tmp_path)])
    assert "vocabulary_missing" == failure.value.reason


def test_a_file_is_added_under_the_name_its_bytes_give(no_packages: None, tmp_path: Path) -> None:
    data = LOADED_BYTES["cl100k_base"]
    (tmp_path / "some.file").write_bytes(data)
    (tmp_path / "packed").write_bytes(gzip.compress(data, 1))
    for given_as in ("some.file", "packed"):
        kept = str(tmp_path / given_as[:1] / "kept")
        found = add(str(tmp_path / given_as), kept)
        assert Found("cl100k_base", os.path.join(kept, "cl100k_base.tiktoken"), "directory") == found
        assert ["cl100k_base.tiktoken"] == os.listdir(kept)
        assert found == find("cl100k_base", [kept])
        assert 2 == tokenizer("cl100k_base", [kept]).count("hello world")


def test_a_cache_directory_of_tiktoken_serves(no_packages: None, tmp_path: Path) -> None:
    path = tmp_path / vocabulary("o200k_base").cached_as
    path.write_bytes(LOADED_BYTES["o200k_base"])
    assert Found("o200k_base", str(path), "directory") == find("o200k_base", [str(tmp_path)])


def test_a_damaged_vocabulary_is_no_vocabulary(no_packages: None, tmp_path: Path) -> None:
    data = LOADED_BYTES["cl100k_base"]
    damaged = [data[:-1], data + b"\n", b"", gzip.compress(data)[:-20], b"\x1f\x8b nonsense", b"x" * (2**24 + 1)]
    for number, contents in enumerate(damaged):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "cl100k_base.tiktoken").write_bytes(contents)
        assert find("cl100k_base", [str(folder)]) is None
        with pytest.raises(BadRequest) as failure:
            add(str(folder / "cl100k_base.tiktoken"), str(tmp_path / "kept"))
        assert "not_a_vocabulary" == failure.value.reason
    assert not (tmp_path / "kept").exists()


def test_a_vocabulary_that_goes_away_after_it_was_found_is_told(no_packages: None, tmp_path: Path) -> None:
    path = tmp_path / "cl100k_base.tiktoken"
    path.write_bytes(LOADED_BYTES["cl100k_base"])
    counter = tokenizer("cl100k_base", [str(tmp_path)])
    path.write_bytes(b"aGVsbG8= 0\n")
    with pytest.raises(Unavailable) as failure:
        counter.count("hello")
    assert "vocabulary_missing" == failure.value.reason


def test_files_that_cannot_be_read_or_written_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(LOADED_BYTES["cl100k_base"])
    for path, directory in ((tmp_path / "none", tmp_path), (tmp_path / "file", tmp_path / "file" / "below")):
        with pytest.raises(Unavailable) as failure:
            add(str(path), str(directory))
        assert "vocabulary_file" == failure.value.reason


@requirement("P6")
def test_fetch_says_from_where_before_it_reaches_out(tmp_path: Path) -> None:
    said: list[str] = []

    def download(url: str, limit: int) -> bytes:
        assert [f"downloading {url}"] == said
        return LOADED_BYTES["o200k_base"][:limit]

    found = fetch("o200k_base", str(tmp_path), said.append, download)
    assert str(tmp_path / "o200k_base.tiktoken") == found.path
    assert "https://" in said[0]
    with pytest.raises(BadRequest, match="hash differs"):
        fetch("o200k_base", str(tmp_path), said.append, lambda *_: b"an error page")
    with pytest.raises(BadRequest, match="hash differs"):
        fetch("o200k_base", str(tmp_path), said.append, lambda *_: LOADED_BYTES["cl100k_base"])


def test_fetch_without_a_network_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(Unavailable, match="cannot download https://") as failure:
        fetch("cl100k_base", str(tmp_path), lambda _: None)
    assert "no_network" == failure.value.reason
    assert [] == os.listdir(tmp_path)


def test_what_the_network_sends_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "urllib.request.urlopen", lambda *_, **__: io.BytesIO(LOADED_BYTES["cl100k_base"] + b"\0" * 2**24)
    )
    with pytest.raises(BadRequest, match="hash differs"):
        fetch("cl100k_base", str(tmp_path), lambda _: None)
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: io.BytesIO(LOADED_BYTES["cl100k_base"]))
    assert "cl100k_base" == fetch("cl100k_base", str(tmp_path), lambda _: None).name


def test_a_broken_package_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = types.ModuleType("broken_package")
    broken.__spec__ = None
    monkeypatch.setitem(sys.modules, "broken_package", broken)  # find_spec raises ValueError over it
    monkeypatch.setattr(tokens, "_PACKAGES", (("broken_package", "x"), *tokens._PACKAGES))
    assert find("cl100k_base") is not None


@requirement("P6")
@fault(50)
def test_a_process_without_network_or_cache_counts(tmp_path: Path) -> None:
    """With every way to connect cut off, an empty cache directory and a proxy that leads nowhere."""
    code = (
        "import socket\n"
        "def no(*_, **__): raise SystemExit('reached out')\n"
        "socket.socket = socket.create_connection = socket.getaddrinfo = no\n"
        "from repo_provider.tokens import tokenizer\n"
        "print(tokenizer('openai:o200k_base').count('hello world'))\n"
    )
    surroundings = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TIKTOKEN_CACHE_DIR": str(tmp_path / "empty"),
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    done = subprocess.run([sys.executable, "-c", code], env=surroundings, capture_output=True, text=True, timeout=60)
    assert ("2\n", "", 0) == (done.stdout, done.stderr, done.returncode)


# --- counting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tokens.NAMES)
@fault(47)
def test_special_tokens_in_a_source_are_text(name: str) -> None:
    text = "s = '<|endoftext|>' + '<|im_start|>' + '<|fim_prefix|>'\n"
    counted = LOADED[name].count(text)
    assert counted is not None
    assert counted == len(LOADED[name].warm().encode_ordinary(text))
    assert 10 < counted
    assert 1 < (LOADED[name].count("<|endoftext|>") or 0)


@pytest.mark.parametrize("name", tokens.NAMES)
@pytest.mark.parametrize("run", ["a", " ", "=", "\n", "\t", "漢", "👍", "\u0301", "क\u093f", "ab", "═="])
@fault(49)
def test_an_endless_run_is_never_given_to_the_tokenizer(name: str, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """tiktoken takes the square of its length, or panics (`\\t` and one letter, a million times)."""
    monkeypatch.setattr(tokens, "_encoded", lambda *_: pytest.fail("was given an endless run"))
    counter = Tokenizer(Found(name, LOADED[name]._path, "directory"))
    for around in ("", "x = 1\n"):
        assert counter.count(around + run * 1_000_000 + "x" + around) is None
    assert 2 == counter.uncounted


def test_ordinary_long_texts_are_counted() -> None:
    counter = LOADED["o200k_base"]
    for text in (
        "def f(a, b):\n    return a + b\n" * 9_000,
        "var a=1;b(c.d);" * 9_000,
        "f0a1" * 9_000,
        "漢字、仮名。1" * 9_000,
    ):
        counted = counter.count(text)
        assert counted is not None
        assert len(text.encode()) // 8 < counted <= len(text.encode())


@given(st.text(st.characters(codec="utf-8")))
@example("\ufeff\0\r\n")
def test_a_text_never_has_more_tokens_than_bytes(text: str) -> None:
    counted = LOADED["cl100k_base"].count(text)
    assert counted is not None
    assert counted <= len(text.encode())  # what packing takes for the tokens of a text nobody counted


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def encode_ordinary(self, text: str) -> list[int]:
        raise self.error


class PanicException(BaseException):
    """What pyo3 makes of a panic: no Exception, and of a class one cannot import."""


@fault(49)
def test_a_panic_in_the_tokenizer_costs_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Tokenizer(LOADED_FOUND)
    for error in (PanicException("boom"), ValueError("boom"), MemoryError()):
        monkeypatch.setattr(counter, "_encoding", Failing(error))
        assert counter.count("x") is None
    monkeypatch.setattr(counter, "_encoding", Failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        counter.count("x")
    assert 3 == counter.uncounted


def test_counts_are_kept_by_blob_and_range(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def count(self: Tokenizer, text: str) -> int | None:
        asked.append(text)
        return None if text == "?" else len(text)

    monkeypatch.setattr(Tokenizer, "count", count)
    monkeypatch.setattr(tokens, "_MOST_KEPT", 3)
    blobs = {b"a": BlobId(b"1" * 20), b"b": BlobId(b"1" * 20), b"c": BlobId(b"2" * 20)}
    counts = Counts(Tokenizer(LOADED_FOUND))
    counter = counts.of(lambda path: blobs.get(path))

    def ask(path: bytes, start: int, content: str) -> int | None:
        return counter(RepositoryPath(path), Span(start, start + 3), content)

    assert 3 == ask(b"a", 0, "one") == ask(b"b", 0, "one") == ask(b"a", 0, "one")
    assert ask(b"c", 0, "?") is None
    assert ask(b"c", 0, "?") is None
    assert ["one", "?"] == asked
    assert 3 == ask(b"d", 0, "two") == ask(b"d", 0, "two")  # no blob: counted each time
    assert ["one", "?", "two", "two"] == asked
    for start in range(1, 4):
        ask(b"a", start, "new")
    assert ["one", "?", "two", "two", "new", "new", "new"] == asked
    ask(b"a", 0, "one")
    assert "one" == asked[-1]  # the oldest were let go: a cache does not grow for ever


# --- with frames -----------------------------------------------------------------------------------------------

SOURCES = [
    b"".join(b"    if (a[%d]!=b[%d])||(c->d[%d]==0x%x){e++;}\n" % (n, n, n, n * 77) for n in range(40)),
    "".join(f"    # 第{n}行：漢字仮名交じり文。\n" for n in range(40)).encode(),
    b"".join(b"def function_%d(argument): return argument + %d\n" % (n, n) for n in range(40)),
    b"    # " + b"=" * 3_000 + b"\ndef ruled(): pass\n",
]


@requirement("B1", "spec-P4")
@pytest.mark.parametrize("name", tokens.NAMES)
@pytest.mark.parametrize("max_tokens", [60, 200, 500, 1_000, 4_000])
def test_packed_frames_fit_the_budget_in_model_tokens_too(name: str, max_tokens: int) -> None:
    texts = {RepositoryPath(b"%d.py" % number): Text(data) for number, data in enumerate(SOURCES)}
    hits = [Hit(path, "snippet", Span(0, len(text.data)), 0.5) for path, text in texts.items()]
    counter = Counts(LOADED[name]).of(lambda _: None)
    pieces = select(hits, texts, max_frames=8, max_tokens=max_tokens, counter=counter).pieces
    assert pieces
    frames = [build(piece, texts[piece.path], Origin("/r"), tokenizer=LOADED[name].ref) for piece in pieces]
    for frame in frames:
        assert len(LOADED[name].warm().encode_ordinary(frame.content)) == frame.canonical_token_cost
        assert f"openai:{name}" == frame.tokenizer_ref
    assert sum(frame.canonical_token_cost or 0 for frame in frames) <= max_tokens
    assert sum(frame.token_cost for frame in frames) <= max_tokens


def test_counting_is_off_every_other_path() -> None:
    code = (
        "import sys; import repo_provider.tokens, repo_provider.frames\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('tiktoken', 'tiktoken_ext', 'requests')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "[]\n" == done.stdout


# --- in answers ------------------------------------------------------------------------------------------------

DENSE = "".join(f"def f{n}(a,b):\n    return{{(a,b):[{n}]}}[a,b]or(-~{n}**~a)\n\n\n" for n in range(60))
NESTED = "# Punctuation\n\n" + "".join(f"- `f{n}(a,b)` -> {{({n},b):[~a]}}\n" for n in range(40))


@pytest.fixture
def dense() -> Made:
    return make_repo([("2026-01-01", {"dense.py": DENSE}), ("2026-02-01", {"dense.md": NESTED})])


def answered(made: Made, name: str | None, **members: object) -> ContextQueryResult:
    provider = Provider(Settings(path=str(made.path), workers=1, tokenizer=name))
    asked: dict[str, object] = {"goal": "why does f return punctuation", "max_frames": 10, "max_tokens": 300, **members}
    try:
        return provider.query(ContextQuery(**asked))  # type: ignore[arg-type]  # by name
    finally:
        provider.close()


@requirement("spec-P4", "B1")
@pytest.mark.parametrize("name", tokens.NAMES)
@pytest.mark.parametrize("members", [{}, {"kinds": ("episode",)}, {"kinds": ("graph",)}, {"max_tokens": 120}])
def test_an_answer_fits_a_model_when_it_is_told_which(dense: Made, name: str, members: dict[str, object]) -> None:
    budget = members.get("max_tokens", 300)
    assert isinstance(budget, int)
    plain, counted = answered(dense, None, **members), answered(dense, name, **members)
    assert {(None, None)} >= {(frame.canonical_token_cost, frame.tokenizer_ref) for frame in plain.frames}
    for frame in counted.frames:
        exact = LOADED[name].count(frame.content)
        assert exact == frame.canonical_token_cost
        assert (None if exact is None else f"openai:{name}") == frame.tokenizer_ref
        assert -(-len(frame.content.encode()) // 4) == frame.token_cost
    assert budget >= sum(frame.token_cost for frame in counted.frames)
    assert budget >= sum(weight(frame) for frame in counted.frames)
    if not members:
        assert budget < sum(LOADED[name].count(frame.content) or 0 for frame in plain.frames)


def weight(frame: ContextFrame) -> int:
    return frame.canonical_token_cost or len(frame.content.encode())


def test_the_status_marks_what_is_an_estimate(dense: Made) -> None:
    dense.write("runs.md", ruled := "A line of few words.\n" * 40 + "=" * 3_000 + "\n")
    provider = Provider(Settings(path=str(dense.path), workers=1, tokenizer="o200k_base"))
    told = provider.status()["budget"]
    provider.close()
    exact = sum(LOADED["o200k_base"].count(text) or 0 for text in (DENSE, NESTED))
    assert {
        "tokenizer": "openai:o200k_base",
        "tokens": exact + len(ruled),
        "estimated": "1 (runs.md): a token a byte",
    } == told
    provider = Provider(Settings(path=str(dense.path), workers=1))
    assert "an estimate" in str(provider.status()["budget"])
    provider.close()


def test_a_panic_while_an_answer_is_counted_costs_no_frame(dense: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_encoded", lambda encoding, text: None)
    frames = answered(dense, "o200k_base").frames
    assert frames
    assert {None} == {frame.canonical_token_cost for frame in frames}
    assert 300 >= sum(len(frame.content.encode()) for frame in frames)


def test_a_missing_vocabulary_is_told_with_the_remedy(dense: Made, no_packages: None) -> None:
    with pytest.raises(Unavailable, match=r"`pip install repo-provider\[tokens\]`, .*`repo-provider tokenizer fetch"):
        answered(dense, "cl100k_base")


def test_a_provider_that_counts_nothing_never_loads_the_tokenizer(dense: Made) -> None:
    """Nor does one that counts before it has acknowledged the handshake."""
    program = (
        "import sys\n"
        "from repo_provider.__main__ import serving\n"
        "from repo_provider.protocol import ContextQuery\n"
        "from repo_provider.settings import Settings\n"
        "for name in (None, 'o200k_base'):\n"
        f"    service = serving(Settings(path={str(dense.path)!r}, workers=1, tokenizer=name))\n"
        "    print('tiktoken' in sys.modules)\n"
        "    service.provider().query(ContextQuery('dense', 3, 300), None)\n"
        "    service.close()\n"
        "    print('tiktoken' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert ["False", "False", "False", "True"] == done.stdout.split()
