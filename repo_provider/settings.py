"""What was typed, and what it means: every option once, for every edge.

`OPTIONS` feeds the command line's `--help`, the table in the README and the small parser that `serve` uses before
any command-line framework is imported. `Typed` holds the words as they came; `resolve` turns them into `Settings`
with the defaults chosen, paths absolute and numbers checked. The environment and the current directory come in as
arguments: nobody below `cli` and `__main__` reads them. Nothing here opens a repository or a store.
"""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from repo_provider import __version__
from repo_provider.errors import BadRequest
from repo_provider.protocol import (
    KINDS,
    Capabilities,
    DataFlow,
    Instant,
    ProviderInfo,
    QueryCapability,
    parse_instant,
)

# --- what can be typed -----------------------------------------------------------------------------------------


class Option(Struct, frozen=True):
    """One option: `flags` as typed, `field` of `Typed` it fills. A switch has no `metavar` and takes no value.

    `bare` is the value of a flag that may stand alone.
    """

    flags: tuple[str, ...]
    field: str
    metavar: str
    help: str
    bare: str | None = None


OPTIONS = (
    Option(("-C",), "path", "PATH", "Serve the repository that encloses PATH (default: the current directory)."),
    Option(
        ("--ref",),
        "ref",
        "REF",
        "Serve the tip of this branch, tag or commit instead of the working tree and HEAD's line.",
    ),
    Option(("--name",), "name", "NAME", "The name the provider declares to hosts (default: repo-provider)."),
    Option(
        ("--store",),
        "store",
        "DIR",
        "Keep the index in DIR (default: ~/.cache/repo-provider; in memory where that cannot be written or lies "
        "inside the repository).",
    ),
    Option(("--no-store",), "no_store", "", "Keep the index in memory only."),
    Option(
        ("--deadline",),
        "deadline",
        "SECONDS",
        "Answer within SECONDS, with less if need be; 0 waits for the complete answer (default: 1.8).",
    ),
    Option(
        ("--max-file-size",),
        "max_file_size",
        "SIZE",
        "Leave out files larger than SIZE, in bytes or like 512K or 2M (default: 1M).",
    ),
    Option(("--workers",), "workers", "N", "Parse in N processes beside this one (default: one a core, at most 4)."),
)
"""What every command takes."""

SERVE_OPTIONS = (
    Option(
        ("--http",),
        "http",
        "[HOST:PORT]",
        "Serve over HTTP instead of stdin and stdout, with a page at / for people; prints the url "
        "(default: 127.0.0.1:0, any free port).",
        bare="127.0.0.1:0",
    ),
    Option(
        ("--token-file",),
        "token_file",
        "FILE",
        "Answer only who presents the bearer token that FILE holds; needed where HOST is not this machine's loopback.",
    ),
    Option(("--tls-cert",), "tls_cert", "FILE", "Serve https with this certificate chain (PEM)."),
    Option(("--tls-key",), "tls_key", "FILE", "The certificate's private key (PEM)."),
    Option(("--behind-proxy",), "behind_proxy", "", "A proxy in front takes care of TLS."),
    Option(
        ("--allow-host",),
        "allow_host",
        "NAME,...",
        "Answer requests for these host names (with or without a port) beside the address itself and localhost.",
    ),
    Option(
        ("--allow-origin",),
        "allow_origin",
        "ORIGIN,...",
        "Let pages of these origins (like https://notes.example) ask; by default only our own page may.",
    ),
)
"""What `serve` takes beside them to be reached over HTTP."""

SIGN_OPTIONS = (
    Option(
        ("--sign",),
        "sign",
        "[KEYFILE]",
        "Publish the key of KEYFILE in the handshake and sign every answer "
        "(default: ~/.config/repo-provider/key.json, which `key new` makes).",
        bare="",
    ),
    Option(("--sign-each",), "sign_each", "", "Sign every frame too, for hosts that pass frames on singly."),
)
"""What `serve` takes beside them to prove who answered."""

BUDGET_OPTIONS = (
    Option(
        ("--budget-tokenizer",),
        "budget_tokenizer",
        "NAME",
        "Keep answers within the budget in this model tokenizer's tokens too, and state them on every frame: "
        "cl100k_base or o200k_base.",
    ),
    Option(
        ("--tokenizers",),
        "tokenizers",
        "DIR",
        "Where its vocabulary lies (default: ~/.local/share/repo-provider/tokenizers, then installed packages).",
    ),
)
"""What commands take beside them whose answers have a budget."""


SERVE_TAKES = (*OPTIONS, *SERVE_OPTIONS, *SIGN_OPTIONS, *BUDGET_OPTIONS)

MCP_DEADLINE = "20"
"""Seconds: an agent waits for its tools, and prefers whole answers."""
_FOR_AGENTS = {
    "path": "Serve the repository that encloses PATH (default: those of the client's roots as they change, "
    "else of the current directory).",
    "deadline": f"Answer within SECONDS, with less if need be; 0 waits for the complete answer "
    f"(default: {MCP_DEADLINE}).",
}
MCP_TAKES = tuple(replace(option, help=_FOR_AGENTS.get(option.field, option.help)) for option in OPTIONS)
"""What `mcp` takes."""

QUERY_DEADLINE = "0"
"""Whoever types a question sees how far it is, and can end it."""
QUERY_TAKES = tuple(
    replace(option, help="Answer within SECONDS, with less if need be; 0 waits for the complete answer (default: 0).")
    if option.field == "deadline"
    else option
    for option in OPTIONS
)
"""What `query` takes."""


class Typed(Struct, frozen=True):
    """The options as they were typed; None where nothing was."""

    path: str | None = None
    ref: str | None = None
    name: str | None = None
    store: str | None = None
    no_store: bool = False
    deadline: str | None = None
    max_file_size: str | None = None
    workers: str | None = None
    http: str | None = None
    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    allow_host: str | None = None
    allow_origin: str | None = None
    sign: str | None = None
    sign_each: bool = False
    budget_tokenizer: str | None = None
    tokenizers: str | None = None


def read(arguments: Sequence[str], takes: Sequence[Option] = SERVE_TAKES, command: str = "serve") -> Typed:
    """The options of a command that takes nothing else. The last of two wins. Raises BadRequest (`usage`)."""
    flags = {flag: option for option in takes for flag in option.flags}
    values: dict[str, str | bool] = {}
    words = deque(arguments)
    while words:
        word = words.popleft()
        flag, equals, attached = word.partition("=")
        if flag[:2] == "-C" and word != "-C":  # -C/path, as git's own command line takes it
            flag, equals, attached = "-C", "=", word[2:]
        option = flags.get(flag)
        if option is None:
            raise BadRequest(f"{word}: no such option; `repo-provider {command} --help` lists them", reason="usage")
        if not option.metavar and equals:
            raise BadRequest(f"{flag} takes no value", reason="usage")
        values[option.field] = _value(option, flag, attached if equals else None, words) if option.metavar else True
    return Typed(**values)  # type: ignore[arg-type]  # the table pairs each field with its type


def _value(option: Option, flag: str, attached: str | None, words: deque[str]) -> str:
    if attached is not None:
        return attached
    if option.bare is not None and (not words or words[0].startswith("-")):
        return option.bare
    if not words:
        raise BadRequest(f"{flag} needs a value", reason="usage")
    return words.popleft()


# --- what it means ---------------------------------------------------------------------------------------------

MAX_FILE_SIZE = 1 << 20
DEADLINE = 1.8


class Http(Struct, frozen=True):
    """How to listen. `host` is an IP address. `certificate` and `key` are paths or both None; so is `token_file`."""

    host: str
    port: int
    token_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


class Sign(Struct, frozen=True):
    """What to sign answers with. `outside` are folders a key is never read from: those of the repository."""

    key_file: str
    each: bool = False
    outside: tuple[str, ...] = ()


class Settings(Struct, frozen=True):
    """What this process serves and how.

    `path` is absolute, as typed: symlinks are not resolved, so that `file://` uris read as the user writes them.
    `store` None keeps the index in memory. `deadline` None waits. `notes` are told to the user once, on stderr.
    `http` None speaks over stdin and stdout, `sign` None signs nothing. `tokenizer` None counts no model tokens;
    else its vocabulary is looked for in the folders `tokenizers`.
    """

    path: str
    ref: str | None = None
    name: str = "repo-provider"
    store: str | None = None
    deadline: float | None = DEADLINE
    max_file_size: int = MAX_FILE_SIZE
    workers: int = 2
    notes: tuple[str, ...] = ()
    http: Http | None = None
    sign: Sign | None = None
    tokenizer: str | None = None
    tokenizers: tuple[str, ...] = ()


class Surroundings(Struct, frozen=True):
    """What a process finds itself in: $HOME, the current directory ("" where there is none any more), its cores."""

    home: str | None
    directory: str
    cores: int


def resolve(typed: Typed, around: Surroundings) -> Settings:
    """The meaning of what was typed, here.

    Raises BadRequest (`usage`) that names the option and what it takes.
    """
    store, notes = _store(typed, around)
    path = absolute(around.directory, _text("-C", "." if typed.path is None else typed.path))
    return Settings(
        path=path,
        ref=None if typed.ref is None else _text("--ref", typed.ref),
        name="repo-provider" if typed.name is None else _text("--name", typed.name),
        store=store,
        deadline=_deadline(typed.deadline),
        max_file_size=MAX_FILE_SIZE if typed.max_file_size is None else _size(typed.max_file_size),
        workers=min(4, max(1, around.cores)) if typed.workers is None else _workers(typed.workers),
        notes=notes,
        http=_http(typed, around),
        sign=_sign(typed, around, path),
        tokenizer=None if typed.budget_tokenizer is None else _text("--budget-tokenizer", typed.budget_tokenizer),
        tokenizers=tokenizers(typed.tokenizers, around),
    )


def declared(settings: Settings) -> tuple[ProviderInfo, Capabilities]:
    """What a host is told in the handshake; it needs no repository."""
    flow = DataFlow(reads=True, writes=False, egress=False, egress_scopes=("local-only",))  # C5, P6
    info = ProviderInfo(settings.name, __version__, flow)
    return info, Capabilities(QueryCapability(KINDS), correlation=True, graph=True, verify=True)


def _store(typed: Typed, around: Surroundings) -> tuple[str | None, tuple[str, ...]]:
    if typed.no_store:
        return None, ()
    if typed.store is not None:
        return absolute(around.directory, _text("--store", typed.store)), ()
    if around.home and os.path.isabs(around.home):
        # never $XDG_CACHE_HOME: a host clears it, and its process and a typed command are to share one store
        return os.path.join(around.home, ".cache", "repo-provider"), ()
    return None, ("HOME is not set: the index is kept in memory (--store DIR keeps it on disk)",)


def store_outside(settings: Settings, places: Iterable[str | None]) -> tuple[str | None, str | None]:
    """The store's directory and a note: nothing is ever written inside the repository (P6).

    `places` are the working tree, the git directory and the common directory. A store that lies in one of them is
    kept in memory instead; so is one whose place cannot be written.
    """
    if settings.store is None:
        return None, None
    real = os.path.realpath(settings.store)
    if any(_inside(real, os.path.realpath(place)) for place in places if place):
        return None, f"the store {settings.store} lies inside the repository: the index is kept in memory"
    if not _writable(real):
        return None, f"the store {settings.store} cannot be written: the index is kept in memory"
    return settings.store, None


def _inside(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip(os.sep) + os.sep)


def _writable(path: str) -> bool:
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def tokenizers(typed: str | None, around: Surroundings) -> tuple[str, ...]:
    """Where vocabularies lie; nowhere where none was named and there is no home."""
    if typed is not None:
        return (absolute(around.directory, _text("--tokenizers", typed)),)
    return () if not around.home else (os.path.join(around.home, ".local", "share", "repo-provider", "tokenizers"),)


def key_file(typed: str | None, around: Surroundings) -> str:
    """The key file that is meant; with nothing typed the one in the home. Raises BadRequest where there is none."""
    if typed:
        return absolute(around.directory, _text("KEYFILE", typed))
    if not around.home or not os.path.isabs(around.home):
        raise BadRequest("HOME is not set: say which KEYFILE", reason="usage")
    return os.path.join(around.home, ".config", "repo-provider", "key.json")


def repository_folders(path: str) -> tuple[str, ...]:
    """The folders of the repository that encloses a path, told from names alone: no key may lie in them."""
    place = os.path.realpath(path)
    while not _is_repository(place):
        if place == os.path.dirname(place):
            return ()
        place = os.path.dirname(place)
    return (place,)


def _is_repository(place: str) -> bool:
    bare = os.path.isfile(os.path.join(place, "HEAD")) and os.path.isdir(os.path.join(place, "objects"))
    return bare or os.path.lexists(os.path.join(place, ".git"))


def _sign(typed: Typed, around: Surroundings, path: str) -> Sign | None:
    if typed.sign is None:
        if typed.sign_each:
            raise BadRequest("--sign-each means nothing without --sign", reason="usage")
        return None
    return Sign(key_file(typed.sign, around), typed.sign_each, repository_folders(path))


def absolute(directory: str, path: str) -> str:
    """The path made absolute, without resolving symlinks unless a `..` stands behind one."""
    joined = os.path.join(directory, path)
    if not os.path.isabs(joined):
        raise BadRequest(f"the current directory is gone, so {path!r} means nothing: give an absolute path")
    tidy = os.path.normpath(joined)
    real = os.path.realpath(joined)
    return tidy if os.path.realpath(tidy) == real else real


def _text(flag: str, value: str) -> str:
    if not value.strip() or any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise BadRequest(f"{flag} takes a value without control characters, not {value!r}", reason="usage")
    return value


def _deadline(value: str | None) -> float | None:
    if value is None:
        return DEADLINE
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise BadRequest(f"--deadline takes seconds, 0 to wait, not {value!r}", reason="usage")
    return seconds or None


_SIZE = re.compile(r"([1-9]\d{0,9})(?:([KM])(?:i?B)?)?", re.ASCII | re.IGNORECASE)


def _size(value: str) -> int:
    match = _SIZE.fullmatch(value)
    if match is None:
        raise BadRequest(f"--max-file-size takes bytes or a size like 512K or 2M, not {value!r}", reason="usage")
    return int(match[1]) << {"": 0, "K": 10, "M": 20}[(match[2] or "").upper()]


def _workers(value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value[:4]) <= 64:
        raise BadRequest(f"--workers takes a number from 1 to 64, not {value!r}", reason="usage")
    return int(value)


# --- how to listen ---------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]+)(?::(\d{1,5}))?", re.ASCII)
_HOST_NAME = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?")


def _http(typed: Typed, around: Surroundings) -> Http | None:
    """Who can reach it has to be let in: beyond loopback it takes a token, and TLS here or in a proxy."""
    if typed.http is None:
        lonely = [option.flags[0] for option in SERVE_OPTIONS if getattr(typed, option.field)]
        if lonely:
            raise BadRequest(f"{lonely[0]} means nothing without --http", reason="usage")
        return None
    host, port, loopback = _address(typed.http)
    http = Http(
        host,
        port,
        token_file=_file("--token-file", typed.token_file, around),
        certificate=_file("--tls-cert", typed.tls_cert, around),
        key=_file("--tls-key", typed.tls_key, around),
        behind_proxy=typed.behind_proxy,
        hosts=_names("--allow-host", typed.allow_host, _HOST_NAME),
        origins=_names("--allow-origin", typed.allow_origin, _ORIGIN),
    )
    if (http.certificate is None) != (http.key is None):
        raise BadRequest("--tls-cert and --tls-key go together", reason="usage")
    if http.token_file is None and (http.behind_proxy or not loopback):
        raise BadRequest(f"{_beyond(typed)}: it needs --token-file FILE", reason="usage")
    if http.certificate is None and not http.behind_proxy and not loopback:
        raise BadRequest(f"{_beyond(typed)}: it needs --tls-cert and --tls-key, or --behind-proxy", reason="usage")
    return http


def _beyond(typed: Typed) -> str:
    what = "--behind-proxy" if typed.behind_proxy else f"--http {typed.http}"
    return f"{what} can be reached from other machines"


def _address(value: str) -> tuple[str, int, bool]:
    """An address to listen at, and whether only this machine reaches it. Names are not looked up (P6)."""
    from ipaddress import ip_address  # costs more than it is worth where nobody asks for HTTP

    match = _ADDRESS.fullmatch(value)
    try:
        if match is None or int(match[2] or 0) > 65_535:
            raise ValueError
        address = ip_address("127.0.0.1" if match[1].lower() == "localhost" else match[1].strip("[]"))
    except ValueError:
        raise BadRequest(
            f"--http takes an address and a port like 127.0.0.1:8080 or [::1]:8080, not {value!r}", reason="usage"
        ) from None
    return str(address), int(match[2] or 0), address.is_loopback


def _file(flag: str, value: str | None, around: Surroundings) -> str | None:
    return None if value is None else absolute(around.directory, _text(flag, value))


def _names(flag: str, value: str | None, form: re.Pattern[str]) -> tuple[str, ...]:
    names = () if value is None else tuple(name.strip().lower() for name in value.split(","))
    for name in names:
        if not form.fullmatch(name):
            raise BadRequest(f"{flag} does not take {name!r}", reason="usage")
    return names


# --- instants a person types -----------------------------------------------------------------------------------

_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}", re.ASCII)


def typed_instant(text: str) -> Instant | None:
    """The instant of an F4 timestamp or a bare date; None where the text can only be a revision.

    A bare date is the end of that day, UTC, whatever the clock and the time zone say (fault 27). Raises BadRequest
    (`invalid_time`) for what looks like a time and is none.
    """
    if _DATE.fullmatch(text):
        return _read(f"{text}T23:59:59Z", text)
    return _read(text, text) if _DATE.match(text) and text[8:11].lstrip("0123456789")[:1] in ("T", "t", " ") else None


def _read(timestamp: str, typed: str) -> Instant:
    try:
        return parse_instant(timestamp)
    except BadRequest as error:
        raise BadRequest(
            f"{typed!r} is no instant: write 2026-08-09T12:00:00Z (UTC), a date like 2026-08-09, a commit or a tag",
            reason="invalid_time",
        ) from error


# --- the options as documentation ------------------------------------------------------------------------------


def table(options: Sequence[Option] = OPTIONS) -> str:
    """The options as the Markdown table that stands in the README."""
    rows = [f"| `{' '.join(filter(None, (*option.flags, option.metavar)))}` | {option.help} |" for option in options]
    return "\n".join(["| option | meaning |", "|---|---|", *rows])
