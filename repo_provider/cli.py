"""The command line: what a person types, what a person reads, and the exit code.

Each command turns words into the values the provider takes, asks once, and draws the answer (`display`). It decides
nothing about ranking, history or the protocol. Errors are one line on stderr that says what to do; the exit code is
0 for done, 1 for `verify` where something is no longer valid, 2 for an error, 130 for Ctrl-C, 141 for a closed pipe.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click
import msgspec
from msgspec import Struct

from repo_provider import __version__, display, wire
from repo_provider.errors import BadRequest, ProviderError, Unavailable
from repo_provider.globs import PathFilter
from repo_provider.protocol import KINDS, ContextQuery, FrameId, format_instant, format_range, parse_instant
from repo_provider.settings import (
    BUDGET_OPTIONS,
    MCP_TAKES,
    OPTIONS,
    QUERY_DEADLINE,
    QUERY_TAKES,
    SERVE_TAKES,
    Option,
    Settings,
    Surroundings,
    Typed,
    absolute,
    key_file,
    repository_folders,
    resolve,
    tokenizers,
)
from repo_provider.store import Stored, remove, stores
from repo_provider.syntax import LanguageStatus, languages_status

if TYPE_CHECKING:
    from rich.text import Text

    from repo_provider.attest import Key
    from repo_provider.provider import Provider
    from repo_provider.versions import Version

_Command = TypeVar("_Command", bound=Callable[..., Any])


def run(arguments: Sequence[str], around: Surroundings) -> int:
    """Run one command; returns the exit code. Never raises, never shows a traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # both are text streams here
    try:
        with commands.make_context("repo-provider", list(arguments) or ["--help"], obj=around) as context:
            code: int | None = commands.invoke(context)
        sys.stdout.flush()
        return code or 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return _fail(_usage(error))
    except ProviderError as error:
        return _fail(error.message)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter's last flush complains
        return 141
    except Exception as error:
        place = extract_tb(error.__traceback__)[-1]
        return _fail(
            f"internal fault: {error!r} at {os.path.basename(place.filename)}:{place.lineno}; please report it"
        )


def _fail(message: str) -> int:
    print(f"repo-provider: {display.visible(message)}", file=sys.stderr)
    return 2


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (`{context.command_path} --help` shows how)" if context else ""
    return " ".join(error.format_message().split()) + hint


# --- what every command shares ---------------------------------------------------------------------------------


def _serving(command: _Command) -> _Command:
    """Give a command the options of `settings.OPTIONS`, under the names of `Typed`."""
    return _options(OPTIONS)(command)


def _options(options: Sequence[Option]) -> Callable[[_Command], _Command]:
    def give(command: _Command) -> _Command:
        for option in reversed(options):
            names = (*option.flags, option.field)
            shape = {"metavar": option.metavar} if option.metavar else {"is_flag": True}
            command = click.option(*names, help=option.help, **shape)(command)
        return command

    return give


def _settings(options: dict[str, Any]) -> Settings:
    settings = resolve(Typed(**options), _around())
    for note in settings.notes:
        _note(note)
    return settings


@contextmanager
def _provider(settings: Settings) -> Iterator[Provider]:
    from repo_provider.provider import Provider  # git, numpy and the parsers: not for --help

    provider = Provider(settings, log=_note)
    try:
        yield provider
    finally:
        provider.close()


def _note(text: str) -> None:
    print(f"repo-provider: {display.visible(text)}", file=sys.stderr)


def _deadline(settings: Settings) -> float | None:
    return None if settings.deadline is None else monotonic() + settings.deadline


def _count(context: click.Context, option: click.Parameter, value: str) -> int:
    """A number that the protocol can carry (u32)."""
    if not (value.isascii() and value.isdigit() and len(value) <= 10 and int(value) < 2**32):
        raise click.BadParameter(f"{value!r} is no number from 0 to {2**32 - 1}", context, option)
    return int(value)


# --- commands --------------------------------------------------------------------------------------------------


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s")
def commands() -> None:
    """Code from a git repository as evidence, now or as of any past instant.

    \b
    repo-provider query -C ~/src/app "where are retries limited?"
    repo-provider serve -C ~/src/app        speaks the Context Graph Protocol over stdio
    repo-provider mcp -C ~/src/app          speaks MCP over stdio
    """


@commands.command()
@_options(SERVE_TAKES)
def serve(**options: Any) -> None:
    """Speak the Context Graph Protocol over stdin and stdout, or over HTTP.

    \b
    repo-provider serve -C ~/src/app
    repo-provider serve -C ~/src/app --http        prints the url of a page to ask questions on
    repo-provider serve -C ~/src/app --sign        signs every answer with the key `key new` made
    """
    raise AssertionError(f"the entry point runs `serve` before click is imported, not with {options}")


@commands.command()
@_options(MCP_TAKES)
def mcp(**options: Any) -> None:
    """Speak MCP over stdin and stdout, for coding agents.

    \b
    repo-provider mcp                      the repositories that the agent has open
    repo-provider mcp -C ~/src/app         this one
    """
    raise AssertionError(f"the entry point runs `mcp` before click is imported, not with {options}")


@commands.command()
@click.argument("text", nargs=-1, required=True)
@click.option(
    "--anchor",
    "anchors",
    multiple=True,
    metavar="A",
    help="A file (with #L10-20 for lines), uri or symbol that is near.",
)
@click.option(
    "--as-of", metavar="WHEN", help="An instant (2026-08-09T12:00:00Z), a date (its end, UTC), a commit or a tag."
)
@click.option(
    "--path", "paths", multiple=True, metavar="GLOB", help="Only files like src, *.py or src/**; !GLOB leaves out."
)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only frames of this kind.")
@click.option(
    "--max-frames", callback=_count, default="8", metavar="N", help="Answer with at most N frames (default: 8)."
)
@click.option(
    "--max-tokens",
    callback=_count,
    default="4000",
    metavar="N",
    help="Answer with at most N tokens, bytes / 4 (default: 4000).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one `frames` envelope and nothing else.")
@_options(BUDGET_OPTIONS)
@_options(QUERY_TAKES)
def query(
    text: tuple[str, ...],
    anchors: tuple[str, ...],
    as_of: str | None,
    paths: tuple[str, ...],
    kinds: tuple[str, ...],
    max_frames: int,
    max_tokens: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask which code matters for TEXT.

    \b
    repo-provider query "where are retries limited?" --anchor src/net.rs
    repo-provider query "retry limit" --as-of 2024-06-30 --path 'src/**' --json
    """
    options["deadline"] = options["deadline"] or QUERY_DEADLINE
    settings = _settings(options)
    deadline = _deadline(settings)
    with _provider(settings) as provider, display.progress(sys.stderr) as report:
        wanted = PathFilter(paths, provider.roots) if paths else None
        asked = ContextQuery(
            goal=_goal(text),
            max_frames=max_frames,
            max_tokens=max_tokens,
            kinds=kinds,
            anchors=tuple(_anchor(anchor) for anchor in anchors),
            as_of=None if as_of is None else _as_of(provider, as_of),
        )
        result = provider.query(asked, deadline, wanted, report)
        if wanted is not None and (result.dropped_estimate is not None or not result.truncated):
            _name_unmatched(provider, wanted, asked.as_of)  # a cut answer had no time for it
    if as_json:
        sys.stdout.buffer.write(wire.frames(result) + b"\n")
        return
    _show(display.answer(asked, result))


def _goal(text: Sequence[str]) -> str:
    goal = " ".join(text)
    if not goal.strip():
        raise BadRequest("an empty question has no answer: say what you look for", reason="usage")
    return goal.encode("utf-8", "replace").decode("utf-8")


_LINES = re.compile(r"(.+):(\d+(?:-\d+)?)", re.DOTALL)


def _anchor(typed: str) -> str:
    """An anchor as typed, or as the `file://` uri of what it names from here."""
    path, mark, place = typed.partition("#")
    if not mark and (match := _LINES.fullmatch(typed)):
        path, mark, place = match[1], "#", f"L{match[2]}"
    here = absolute(_around().directory or os.sep, path)
    return f"file://{quote(os.fsencode(here), safe='/~')}{mark}{place}" if os.path.lexists(here) else typed


def _around() -> Surroundings:
    around: Surroundings = click.get_current_context().obj
    return around


def _as_of(provider: Provider, typed: str) -> str:
    text = str(format_instant(provider.instant(typed)))
    _note(f"as of {text}")
    return text


def _name_unmatched(provider: Provider, wanted: PathFilter, as_of: str | None) -> None:
    snapshot = provider.now() if as_of is None else provider.at(parse_instant(as_of))
    for line in wanted.unmatched(snapshot.entries) if snapshot is not None else ():
        _note(line)


# --- verify ---


class _Frame(Struct, frozen=True):
    id: str
    content_digest: str | None = None


class _Result(Struct, frozen=True):
    frames: tuple[_Frame, ...]


class _Envelope(Struct, frozen=True, tag_field="type", tag="frames"):
    result: _Result


@commands.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--attestation", "signed", type=click.File("rb"), metavar="FILE", help="Check the signatures in FILE.")
@click.option("--key", metavar="HEX", help="The public key they must be by, as `key show` prints it.")
@_serving
def verify(file: Any, signed: Any, key: str | None, **options: Any) -> int:
    """Say which frames of an answer still hold, or that an answer is the one that was signed.

    FILE has what `query --json` printed, or with --attestation what `serve --sign` answered; - is stdin. Exit code 0
    where all are valid, 1 where one is not, 2 for an error.

    \b
    repo-provider query "retry limit" --json > held.ndjson
    repo-provider verify held.ndjson
    repo-provider verify --attestation answer.ndjson --key "$(cat their.key)"
    """
    if signed is not None or key is not None:
        return _proven(signed, key, options["name"] or "repo-provider")
    settings = _settings(options)
    held = _held(file.read(), settings.name)
    with _provider(settings) as provider:
        verdicts = provider.verify(held)
    _show(map(display.verdict, verdicts))
    return 0 if all(verdict.status == "valid" for verdict in verdicts) else 1


def _held(data: bytes, provider: str) -> list[FrameId]:
    decoder = msgspec.json.Decoder(_Envelope)
    try:
        envelopes = [decoder.decode(line) for line in data.split(b"\n") if line.strip()]
    except msgspec.DecodeError as error:
        raise BadRequest(f"FILE is to hold what `query --json` printed: {error}", reason="usage") from None
    if not envelopes:  # what a failed query left behind is not an answer of which all is valid
        raise BadRequest("FILE holds no answer: give what `query --json` printed", reason="usage")
    frames = (frame for envelope in envelopes for frame in envelope.result.frames)
    return [FrameId(provider, frame.id, frame.content_digest) for frame in frames]


def _proven(signed: Any, key: str | None, provider: str) -> int:
    """No repository is needed to say who signed."""
    from repo_provider import attest

    if signed is None or key is None:
        raise BadRequest("--attestation FILE and --key HEX go together", reason="usage")
    attest.fingerprint(key)  # refuses what is no key
    findings = [
        finding
        for result in attest.read_answers(signed.read())
        for finding in attest.verify_result(result, provider, key)
    ]
    _show(map(display.finding, findings))
    return 1 if any(finding.problem for finding in findings) else 0


# --- key, tokenizer ---


@commands.group(no_args_is_help=False)
def key() -> None:
    """Make, show and replace the key that answers are signed with.

    It is kept in a file that only its owner may read, outside the repository: ~/.config/repo-provider/key.json unless
    KEYFILE says otherwise.

    \b
    repo-provider key new
    repo-provider key show
    """


def _with_key_file(command: _Command) -> _Command:
    command = click.argument("file", metavar="[KEYFILE]", required=False)(command)
    return click.option("-C", "path", metavar="PATH", default=".", help="The repository that is served.")(command)


@key.command("new")
@_with_key_file
def key_new(file: str | None, path: str) -> None:
    """Make a key in a new file.

    \b
    repo-provider key new
    """
    from repo_provider import attest

    _show_key(attest.new_key(_key_file(file), outside=_served(path)))


@key.command("show")
@_with_key_file
def key_show(file: str | None, path: str) -> None:
    """Print the key's id, its public half and that one's fingerprint, as an operator configures them.

    \b
    repo-provider key show
    """
    from repo_provider import attest

    _show_key(attest.load_key(_key_file(file), outside=_served(path)))


@key.command("rotate")
@_with_key_file
def key_rotate(file: str | None, path: str) -> None:
    """Put a new key, under a new id, in the place of the old one, whose public half stays on record.

    \b
    repo-provider key rotate
    """
    from repo_provider import attest

    _show_key(attest.rotate_key(_key_file(file), outside=_served(path)))


def _key_file(typed: str | None) -> str:
    return key_file(typed, _around())


def _served(path: str) -> tuple[str, ...]:
    return repository_folders(absolute(_around().directory or os.sep, path))


def _show_key(key: Key) -> None:
    from repo_provider.attest import fingerprint

    published = key.published
    told: dict[str, object] = {
        "key_id": published.key_id,
        "algorithm": published.algorithm,
        "public_key": published.public_key,
        "fingerprint": fingerprint(published.public_key),
    }
    if key.retired:
        told["retired"] = {old.key_id: old.public_key for old in key.retired}
    _show(display.facts(told))


@commands.group(no_args_is_help=False)
def tokenizer() -> None:
    """Manage the vocabularies that --budget-tokenizer counts with. Only `fetch` uses the network.

    \b
    repo-provider tokenizer list
    repo-provider tokenizer add o200k_base.tiktoken
    """


_TOKENIZERS = _options([option for option in BUDGET_OPTIONS if option.field == "tokenizers"])


@tokenizer.command("list")
@_TOKENIZERS
def tokenizer_list(tokenizers: str | None) -> None:
    """Say which vocabularies are on this machine, and where.

    \b
    repo-provider tokenizer list
    """
    from repo_provider import tokens

    for name, found in tokens.listed(_vocabularies(tokenizers)):
        _show(iter([display.check(name, found.path if found else "not on this machine", failed=found is None)]))


@tokenizer.command("add")
@click.argument("file")
@_TOKENIZERS
def tokenizer_add(file: str, tokenizers: str | None) -> None:
    """Copy a vocabulary file, whatever its name, to where it is found.

    \b
    repo-provider tokenizer add ~/Downloads/o200k_base.tiktoken
    """
    from repo_provider import tokens

    found = tokens.add(absolute(_around().directory, file), _vocabularies(tokenizers, writes=True)[0])
    _show(iter([display.check(found.name, found.path, failed=False)]))


@tokenizer.command("fetch")
@click.argument("name")
@_TOKENIZERS
def tokenizer_fetch(name: str, tokenizers: str | None) -> None:
    """Download a vocabulary; says from where before it does.

    \b
    repo-provider tokenizer fetch o200k_base
    """
    from repo_provider import tokens

    found = tokens.fetch(tokens.tokenizer_name(name), _vocabularies(tokenizers, writes=True)[0], _note)
    _show(iter([display.check(found.name, found.path, failed=False)]))


def _vocabularies(typed: str | None, *, writes: bool = False) -> tuple[str, ...]:
    folders = tokenizers(typed, _around())
    if writes and not folders:
        raise BadRequest("HOME is not set: say where with --tokenizers DIR", reason="usage")
    return folders


# --- index, status, history, prune ---


@commands.command()
@_serving
def index(**options: Any) -> None:
    """Index now, so that the first question need not wait.

    \b
    repo-provider index -C ~/src/app
    """
    with _provider(_settings(options)) as provider, display.progress(sys.stderr) as report:
        provider.index(report)


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--languages", is_flag=True, help="Only check that the parsers load; exit code 2 where one does not.")
@click.option("--path", "paths", multiple=True, metavar="GLOB", help="Say of these files whether they are served.")
@_options(BUDGET_OPTIONS)
@_serving
def status(as_json: bool, languages: bool, paths: tuple[str, ...], **options: Any) -> int:
    """Say what is served, what is left out, and why.

    \b
    repo-provider status
    repo-provider status --path 'vendor/**'
    repo-provider status --languages
    """
    settings = _settings(options)
    if languages:
        checked = languages_status()
        _show(list(checked) if as_json else map(_loaded, checked))
        return 2 if any(one.error for one in checked) else 0
    with _provider(settings) as provider:
        wanted = PathFilter(paths, provider.roots) if paths else None
        told = provider.status(wanted)
        if wanted is not None:
            _name_unmatched(provider, wanted, None)
    plain = msgspec.to_builtins(told)
    _show(plain if as_json else display.facts(plain))
    return 0


def _loaded(one: LanguageStatus) -> Text:
    served = f"{one.source} {one.version}, ABI {one.abi}" if one.source else "lines and blocks"
    return display.check(
        one.name, f"{one.level:<9}" + (f"failed: {one.error}" if one.error else served), failed=bool(one.error)
    )


def _show(told: object) -> None:
    """Lines to a person, or one JSON value."""
    if isinstance(told, Iterator):
        console = display.console(sys.stdout)
        for line in told:
            console.print(line)
    else:
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")


@commands.command()
@click.argument("place", metavar="PATH[#NAME]")
@_serving
def history(place: str, **options: Any) -> None:
    """List the versions of a file or of a definition in it.

    \b
    repo-provider history src/net.rs
    repo-provider history 'src/net.rs#Client.retry'
    """
    from repo_provider.versions import versions

    with _provider(_settings(options)) as provider:
        listed = versions(provider, _anchor(place))
    rows = [(one.opens, one.closes, _where(one, listed.found[0].path)) for one in listed.found]
    _show(display.timeline(listed.place, rows, listed.until))


def _where(version: Version, path: bytes) -> str:
    where = f"{format_range(*version.lines):<12} {version.commit.hex()[:10]}  {version.subject}"
    return where if version.path == path else f"{where}  (in {version.path.decode('utf-8', 'replace')})"


@commands.command()
@_serving
def prune(**options: Any) -> None:
    """Remove the indexes of repositories that are gone, and from this one's what no commit or file is any more.

    \b
    repo-provider prune
    """
    settings = _settings(options)
    if settings.store is None:
        raise BadRequest("there is no store on disk to prune", reason="usage")
    left = [stored for stored in stores(settings.store) if os.path.exists(stored.repository) or _removed(stored)]
    with suppress(Unavailable), _provider(settings) as provider:
        served = provider.repository.common_dir
        for before in (stored for stored in left if stored.repository == served):
            done = provider.prune()
            freed = before.size - provider.store.facts().size
            if freed > 0 or not done:
                _told("freed" if done else "in use", max(freed, 0), served)


def _removed(stored: Stored) -> bool:
    """Removes a store and says so; whether it is still there."""
    done = remove(stored.folder)
    _told("removed" if done else "in use", stored.size, stored.repository)
    return not done


def _told(done: str, size: int, repository: str) -> None:
    display.console(sys.stdout).print(f"{done}  {display.size(size)}  {display.visible(repository)}")
