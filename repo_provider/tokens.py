"""How many tokens a text is for a real model, counted by tiktoken and never by guess.

B3's bytes / 4 is what the protocol bills; source code runs at 3 to 3.5 bytes a token, so whoever fills a model's
window by it can overflow. This module finds a vocabulary on this machine, checks it against the hash tiktoken itself
expects, and counts. It never downloads (P6), but for `fetch`, which a person types and which says what it will do.
Names, patterns, addresses and hashes all come from the tiktoken that is installed. `provider` hands a `Counts` to the
packing; the command line lists, adds and fetches. Nothing here is imported before somebody asks for model tokens.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import os
import re
import secrets
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from gzip import GzipFile
from types import FunctionType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from repo_provider.errors import BadRequest, Unavailable
from repo_provider.model import BlobId, Path, Span

if TYPE_CHECKING:
    from tiktoken import Encoding

NAMES = ("cl100k_base", "o200k_base")

# --- vocabularies ----------------------------------------------------------------------------------------------


class Vocabulary(Struct, frozen=True):
    """What tiktoken says about one of its vocabularies."""

    name: str
    url: str
    sha256: str
    pattern: str
    special: Mapping[str, int]

    @property
    def cached_as(self) -> str:
        """The file name in a cache directory of tiktoken's own."""
        return hashlib.sha1(self.url.encode(), usedforsecurity=False).hexdigest()


class Found(Struct, frozen=True):
    """A file with exactly the bytes of a vocabulary. `origin` is `directory` or the package it came with."""

    name: str
    path: str
    origin: str


def tokenizer_name(text: str) -> str:
    """The vocabulary meant by `o200k_base` or `openai:o200k_base`. Raises BadRequest (`unknown_tokenizer`)."""
    name = text.removeprefix("openai:")
    if name not in NAMES:
        raise BadRequest(f"unknown tokenizer {text!r}: known are {', '.join(NAMES)}", reason="unknown_tokenizer")
    return name


def vocabulary(name: str) -> Vocabulary:
    """tiktoken's own description of a vocabulary, without its data."""
    from tiktoken_ext import openai_public  # type: ignore[import-untyped]  # it has none

    stated: dict[str, str] = {}

    def take_note(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
        stated.update(url=url, sha256=expected_hash or "")
        return {}

    described = getattr(openai_public, name)
    # The same code with a loader that only listens: the original would reach for the network.
    parts: dict[str, Any] = FunctionType(
        described.__code__, {**described.__globals__, "load_tiktoken_bpe": take_note}
    )()
    return Vocabulary(name, stated["url"], stated["sha256"], parts["pat_str"], parts["special_tokens"])


_PACKAGES = (
    ("bpe_openai", "data/{name}.tiktoken.gz"),
    ("litellm", "litellm_core_utils/tokenizers/{cached_as}"),
)
"""Installed packages that carry vocabularies; they are looked into, never imported."""

_LARGEST = 16 * 2**20


def find(name: str, directories: Sequence[str] = ()) -> Found | None:
    """The first file on this machine that is the vocabulary: in the directories, then in installed packages."""
    wanted = vocabulary(name)
    for path, origin in _places(wanted, directories):
        data = _contents(path)
        if data is not None and hashlib.sha256(data).hexdigest() == wanted.sha256:
            return Found(name, path, origin)
    return None


def _places(wanted: Vocabulary, directories: Sequence[str]) -> list[tuple[str, str]]:
    names = (f"{wanted.name}.tiktoken", f"{wanted.name}.tiktoken.gz", wanted.cached_as)
    places = [(os.path.join(directory, name), "directory") for directory in directories for name in names]
    for package, inside in _PACKAGES:
        for folder in _folders(package):
            part = inside.format(name=wanted.name, cached_as=wanted.cached_as)
            places.append((os.path.join(folder, part), package))
    return places


def _folders(package: str) -> Sequence[str]:
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # a broken installation is not ours to mend
        return ()
    return list(found.submodule_search_locations or ()) if found is not None else ()


def _contents(path: str) -> bytes | None:
    """The bytes of a file, unpacked; None where it is none, too big to be one of these, or damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
        return _unpacked(data)
    except (OSError, EOFError, zlib.error):
        return None


def _unpacked(data: bytes) -> bytes | None:
    if data.startswith(b"\x1f\x8b"):
        data = GzipFile(fileobj=io.BytesIO(data)).read(_LARGEST + 1)
    return data if len(data) <= _LARGEST else None


def listed(directories: Sequence[str] = ()) -> list[tuple[str, Found | None]]:
    """Every vocabulary there is a name for, and where it lies."""
    return [(name, find(name, directories)) for name in NAMES]


def add(path: str, directory: str) -> Found:
    """Copies a vocabulary file into the directory under its name, which its bytes give.

    Raises BadRequest (`not_a_vocabulary`) and Unavailable (`vocabulary_file`).
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error.strerror}", reason="vocabulary_file") from None
    try:
        return _keep(_unpacked(data), directory)
    except (OSError, EOFError, zlib.error):
        return _keep(None, directory)


def fetch(
    name: str,
    directory: str,
    say: Callable[[str], None],
    download: Callable[[str, int], bytes] | None = None,
) -> Found:
    """Downloads a vocabulary into the directory; says from where before it does.

    Raises Unavailable (`no_network`, `vocabulary_file`) and BadRequest (`not_a_vocabulary`).
    """
    wanted = vocabulary(name)
    say(f"downloading {wanted.url}")
    data = (download or _download)(wanted.url, _LARGEST)
    if hashlib.sha256(data).hexdigest() != wanted.sha256:
        raise BadRequest(f"what {wanted.url} sent is not {name}: its hash differs", reason="not_a_vocabulary")
    return _keep(data, directory)


def _download(url: str, limit: int) -> bytes:
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=60) as response:
            data: bytes = response.read(limit)
            return data
    except OSError as error:
        raise Unavailable(f"cannot download {url}: {error}", reason="no_network") from None


def _keep(data: bytes | None, directory: str) -> Found:
    actual = hashlib.sha256(data or b"").hexdigest()
    for name in NAMES:
        if data is not None and actual == vocabulary(name).sha256:
            path = os.path.join(directory, f"{name}.tiktoken")
            _write(path, data)
            return Found(name, path, "directory")
    raise BadRequest(f"not the vocabulary of any of {', '.join(NAMES)}: no hash fits", reason="not_a_vocabulary")


def _write(path: str, data: bytes) -> None:
    beside = f"{path}.{secrets.token_hex(8)}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(beside, "xb") as file:
            file.write(data)
        os.replace(beside, path)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}", reason="vocabulary_file") from None


# --- counting --------------------------------------------------------------------------------------------------


class Tokenizer:
    """Counts the tokens of texts with one vocabulary, read at the first count. Any thread may count."""

    def __init__(self, found: Found) -> None:
        self.name = found.name
        self.ref = f"openai:{found.name}"
        self.uncounted = 0
        """Contents that were not counted: those that would take too long, and those tiktoken failed at."""
        self._path = found.path
        self._loading = threading.Lock()
        self._encoding: Encoding | None = None

    def count(self, text: str) -> int | None:
        """The tokens of a text, in which `<|endoftext|>` and its like are text. None where it cannot be counted."""
        tokens = None if _LONG_RUN.search(text) else _encoded(self.warm(), text)
        if tokens is None:
            self.uncounted += 1
        return tokens

    def warm(self) -> Encoding:
        """Reads the vocabulary, once. Raises Unavailable (`vocabulary_missing`) where its file has gone since."""
        with self._loading:
            if self._encoding is None:
                self._encoding = _encoding(self.name, self._path)
            return self._encoding


def tokenizer(text: str, directories: Sequence[str] = ()) -> Tokenizer:
    """The tokenizer of that name. Raises BadRequest (`unknown_tokenizer`), Unavailable (`vocabulary_missing`)."""
    name = tokenizer_name(text)
    found = find(name, directories)
    if found is None:
        raise _missing(name)
    return Tokenizer(found)


def _missing(name: str) -> Unavailable:
    return Unavailable(
        f"the vocabulary {name} is not on this machine: `pip install repo-provider[tokens]`, "
        f"`repo-provider tokenizer add FILE`, or `repo-provider tokenizer fetch {name}`",
        reason="vocabulary_missing",
    )


def _encoding(name: str, path: str) -> Encoding:
    from tiktoken import Encoding

    wanted, data = vocabulary(name), _contents(path)
    if data is None or hashlib.sha256(data).hexdigest() != wanted.sha256:
        raise _missing(name)
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
    return Encoding(name, pat_str=wanted.pattern, mergeable_ranks=ranks, special_tokens=dict(wanted.special))


# tiktoken takes the square of a piece's length before 0.13, and gives up on very long white space in any version. A
# piece is letters and marks, or other visible characters, or white space; these classes are supersets of the three.
_LONG = 2_048
_LONG_RUN = re.compile(rf"[^\s0-9!-/:-@\[-`{{-~]{{{_LONG}}}|[^\s0-9A-Za-z]{{{_LONG}}}|\s{{{_LONG}}}")


def _encoded(encoding: Encoding, text: str) -> int | None:
    try:
        return len(encoding.encode_ordinary(text))
    except Exception:
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what a panic becomes is no Exception, and has no public name
            raise
        return None


_MOST_KEPT = 2**16
_NOT_YET = -1


class Counts:
    """Model tokens of pieces of files, remembered by blob and range: what `frames.select` takes as its counter.

    It lives as long as its tokenizer; `of` gives the view for one snapshot. Nothing of it is ever stored: which
    ranges were counted says something of the questions.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._kept: dict[tuple[BlobId, int, int], int | None] = {}

    def of(self, blob_of: Callable[[Path], BlobId | None]) -> Callable[[Path, Span, str], int | None]:
        """A counter for the files of a snapshot; a file without a blob id is counted afresh."""

        def counter(path: Path, span: Span, content: str) -> int | None:
            blob = blob_of(path)
            return self.tokenizer.count(content) if blob is None else self._remembered(blob, span, content)

        return counter

    def _remembered(self, blob: BlobId, span: Span, content: str) -> int | None:
        key = (blob, span.start, span.end)
        known = self._kept.get(key, _NOT_YET)
        if known != _NOT_YET:
            return known
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        tokens = self._kept[key] = self.tokenizer.count(content)
        return tokens
