"""Answers as text for a person: the only module that draws.

What a repository says (names, messages, code) is data: every character that could steer a terminal or turn its text
around is shown as a sign of its own. Colour is the console's business: none on a pipe, none under NO_COLOR. Called
by `cli`; nothing that a program reads is made here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO
from urllib.parse import unquote

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.syntax import Syntax
from rich.text import Text

from repo_provider.attest import Finding
from repo_provider.protocol import (
    ContextFrame,
    ContextQuery,
    ContextQueryResult,
    FrameVerdict,
    Instant,
    format_instant,
    parse_range,
)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # the command line has an exit code for it


def console(file: TextIO) -> Console:
    """A console that draws what it is given and finds no markup, links or emoji in it."""
    return _Console(file=file, markup=False, emoji=False, highlight=False, soft_wrap=True)


# --- hostile text ----------------------------------------------------------------------------------------------


def visible(text: str, *, lines: bool = False) -> str:
    """The text with one sign for each character that is not to reach a terminal; newlines only if `lines`.

    Control characters become their pictures, direction marks and other format characters U+FFFD, so that every
    column stays where it was.
    """
    kept = "\n\t" if lines else ""
    return "".join(character if character in kept else _sign(character) for character in text)


def _sign(character: str) -> str:
    code = ord(character)
    if 0x20 <= code < 0x7F:
        return character
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") else character


# --- one answer ------------------------------------------------------------------------------------------------


def answer(query: ContextQuery, result: ContextQueryResult) -> Iterator[Text]:
    """The lines of an answer: each frame's heading and code, then what was spent."""
    for number, frame in enumerate(result.frames, 1):
        yield heading(number, frame)
        yield from code(frame)
        yield Text()
    yield budget(query, result)


def heading(number: int, frame: ContextFrame) -> Text:
    """What a frame is, where, how good, how long and since when."""
    text = Text(f"{number}. ", style="dim")
    text.append(visible(frame.citation_label), style="bold cyan")
    text.append(f"  {visible(frame.kind)}", style="magenta")
    text.append(f"  score {frame.score:.3f}", style="green")
    text.append(f"  {_count(frame.token_cost, 'token')}")
    text.append(f"  {window(frame)}", style="dim")
    return text


def window(frame: ContextFrame) -> str:
    """The frame's valid-time window in words."""
    if frame.valid_from is None and frame.valid_to is None:
        return "no committed version"
    if frame.valid_to is None:
        return f"since {frame.valid_from}"
    return f"{frame.valid_from or 'the beginning'} until {frame.valid_to}"


def code(frame: ContextFrame) -> Iterator[Text]:
    """The frame's content, highlighted by its file's name, each line with its number where it is a line of a file."""
    drawn = _highlighted(frame)
    first = _first_line(frame)
    rows = drawn.split("\n", allow_blank=False)
    width = len(str(first + len(rows))) if first else 0
    for offset, row in enumerate(rows):
        gutter = Text(f"{first + offset:>{width + 2}} │ " if first else "  │ ", style="dim")
        gutter.append_text(row)
        yield gutter


_LONGEST_HIGHLIGHTED = 200_000
_DERIVED = ("graph", "episode")  # their content is prose about a file or a commit, not its lines


def _highlighted(frame: ContextFrame) -> Text:
    content = visible(frame.content.replace("\r\n", "\n"), lines=True)
    if len(content) > _LONGEST_HIGHLIGHTED:
        return Text(content)
    lexer = "text" if frame.kind in _DERIVED else Syntax.guess_lexer(_file_name(frame))
    drawn = Syntax(content, lexer, theme="ansi_dark").highlight(content)
    return drawn if drawn.plain.rstrip("\n") == content.rstrip("\n") else Text(content)


def _file_name(frame: ContextFrame) -> str:
    """The file's name in a `file://` uri or behind the `path=` of a SWHID."""
    place = frame.uri or ""
    if place.startswith("swh:"):
        place = next((part for part in place.split(";") if part.startswith("path=")), "")
    return unquote(place.partition("#")[0]).rpartition("/")[2]


def _first_line(frame: ContextFrame) -> int:
    if frame.kind in _DERIVED:
        return 0
    lines = parse_range(frame.provenance[0].range or "") if frame.provenance else None
    return lines[0] if lines else 0


def budget(query: ContextQuery, result: ContextQueryResult) -> Text:
    """What the answer spent of what it was given, and what it left out."""
    spent = sum(frame.token_cost for frame in result.frames)
    text = Text(f"{_count(len(result.frames), 'frame')} of {query.max_frames:,}", style="bold")
    text.append(f", {spent:,} of {_count(query.max_tokens, 'token')}")
    text.append(_model_tokens(result.frames))
    if result.dropped_estimate is not None:
        text.append(f"; about {result.dropped_estimate:,} more did not fit", style="yellow")
    elif result.truncated:
        text.append("; cut at the deadline, --deadline 0 waits for all of it", style="yellow")
    return text


def _model_tokens(frames: Sequence[ContextFrame]) -> str:
    """The second count, where one was asked for: what the frames take of a model's window."""
    counted = [frame.canonical_token_cost for frame in frames if frame.canonical_token_cost is not None]
    if not counted:
        return ""
    ref = next(frame.tokenizer_ref for frame in frames if frame.tokenizer_ref)
    uncounted = len(frames) - len(counted)
    missing = f", {_count(uncounted, 'frame')} uncounted" if uncounted else ""
    return f" ({_count(sum(counted), 'token')} of {ref}{missing})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# --- verdicts, facts, progress ---------------------------------------------------------------------------------

_VERDICT_STYLES = {"valid": "green", "stale": "yellow", "gone": "red", "unknown": "magenta"}


def verdict(judged: FrameVerdict) -> Text:
    """One frame's verdict: the word first, so that a column of them reads at a glance."""
    text = Text(f"{judged.status:<7}", style=_VERDICT_STYLES[judged.status])
    text.append(f"  {visible(judged.frame.frame_id)}", style="default")
    if judged.replacement_digest:
        text.append(f"  now {judged.replacement_digest}", style="dim")
    return text


def timeline(place: str, versions: Sequence[tuple[Instant, Instant | None, str]], until: Instant) -> Iterator[Text]:
    """Versions, newest first: when each read so, drawn to scale between the first and `until`, and where it stands."""
    yield Text(f"{visible(place)}: {_count(len(versions), 'version')}", style="bold cyan")
    first = versions[-1][0]
    for opens, closes, where in versions:
        text = Text(_bar(first, until, opens, until if closes is None else closes), style="green")
        text.append(f"  {_instant(opens)} ", style="default")
        text.append(f"{'until now' if closes is None else f'until {_instant(closes)}':<26}", style="dim")
        text.append(f"  {visible(where)}", style="default")
        yield text


_WIDTH = 24


def _bar(first: int, until: int, opens: int, closes: int) -> str:
    length = max(1, until - first)
    start = min(_WIDTH - 1, (opens - first) * _WIDTH // length)
    end = max(start + 1, min(_WIDTH, -(-(closes - first) * _WIDTH // length)))
    return "·" * start + "█" * (end - start) + "·" * (_WIDTH - end)


def _instant(instant: Instant) -> str:
    return format_instant(instant) or f"{instant} s"


_OF_DATA = {"paths", "languages", "retired"}
"""Below these stand names that are not ours: they are shown as they are."""


def facts(told: Mapping[str, object], depth: int = 0, *, ours: bool = True) -> Iterator[Text]:
    """Names and values, one a line, what belongs to a name indented below it."""
    width = max((len(name) for name in told), default=0)
    for name, value in told.items():
        label = Text("  " * depth)
        label.append(name.replace("_", " ") if ours else visible(name), style="cyan")
        if isinstance(value, Mapping) and value:
            yield label
            yield from facts(value, depth + 1, ours=name not in _OF_DATA)
        elif isinstance(value, (list, tuple)) and value:
            yield label
            yield from (Text("  " * (depth + 1) + visible(str(item))) for item in value)
        else:
            label.append(" " * (width - len(str(name)) + 2))
            label.append(_value(value), style="default")
            yield label


def _value(value: object) -> str:
    if value is None or value == () or value == [] or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def size(count: int) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1_024:
            return f"{count:,.0f} {unit}"
        count //= 1_024
    return f"{count:,} GiB"


def check(name: str, told: str, *, failed: bool) -> Text:
    """One line of a self-check."""
    text = Text(f"{visible(name):<15} ", style="red" if failed else "cyan")
    text.append(visible(told), style="red" if failed else "default")
    return text


def finding(found: Finding) -> Text:
    """What the signatures say of one frame, or of the answer as a whole: the word first, then why."""
    text = Text("broken " if found.problem else "proven ", style="red" if found.problem else "green")
    text.append(" the answer" if found.frame is None else f" {visible(found.frame)}", style="default")
    if found.problem:
        text.append(f"  {visible(found.problem)}", style="red")
    return text


@contextmanager
def progress(file: TextIO) -> Iterator[Callable[[int, int, bytes], None]]:
    """A bar on a terminal, silence elsewhere: call what it gives with files done, files in all, the present one."""
    if not file.isatty():
        yield lambda done, total, path: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console(file), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, path: bar.update(
            task, completed=done, total=total, description=visible(path.decode("utf-8", "replace"))[-60:]
        )
