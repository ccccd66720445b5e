"""Kind `episode`: a commit as evidence of why code is as it is.

Chooses commits by what their messages say and which files they touched, and writes one down as text: message, files,
the hunks that matter. The text is a function of the commit and the hunks' ordinals alone, so an identity holds in any
process (P4). Pure: `provider` brings commits from `history`, counts from `lexical`, and builds the frame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from repo_provider.commits import Commit, Hunk, Messages
from repo_provider.model import Path
from repo_provider.protocol import format_instant, token_cost

SHORTLIST = 24
SAID, TOUCHED = 0.75, 0.25
"""Of the score: the share of the question's information in the message; the best file that it touched."""
ASIDE = 0.6
"""What an episode counts for where the question does not ask about the past."""
FILES_SHOWN = 12
MESSAGE_BYTES = 6_000
HUNK_LINES = 60
HUNK_TOKENS = 400
"""Budget tokens the hunks of one episode take at most: the message is what explains, hunks are its illustration."""


class Episode(Struct, frozen=True):
    """A commit put forward: its place in the messages and its score in [0, 1]."""

    index: int
    score: float


def choose(
    messages: Messages,
    said: tuple[Sequence[str], NDArray[np.float64]],
    weights: Mapping[str, float],
    files: Mapping[Path, float],
    *,
    asked: bool,
    alone: bool = False,
) -> list[Episode]:
    """Commits that explain best, best first. `said` is how often each term stands in each message not left out as
    bulk (in their order), `files` the scores of the files the answer is about; `asked`: the question is about the past.
    `alone`: nothing but episodes is wanted, so that having touched those files is reason enough.
    """
    telling = [index for index, message in enumerate(messages.items) if not message.bulk]
    share = _shares(said, weights)
    found = []
    for place, index in enumerate(telling):
        touched = max((files.get(path, 0.0) for path in messages.items[index].paths), default=0.0)
        if share[place] > 0 or (alone and touched > 0):
            score = (SAID * float(share[place]) + TOUCHED * touched) * (1.0 if asked else ASIDE)
            found.append(Episode(index, round(min(score, 1.0), 6)))
    found.sort(key=lambda episode: (-episode.score, episode.index))  # the newer of equals first
    return found[:SHORTLIST]


def _shares(said: tuple[Sequence[str], NDArray[np.float64]], weights: Mapping[str, float]) -> NDArray[np.float64]:
    """The share of the question's information that each message has; a word no message says counts as rare."""
    terms, table = said
    count = table.shape[1]
    information = [
        weights.get(term, 0.0) * math.log1p((count - frequency + 0.5) / (frequency + 0.5))
        for term, frequency in zip(terms, (table > 0).sum(axis=1).tolist(), strict=True)
    ]
    words = [(row, value) for row, (term, value) in enumerate(zip(terms, information, strict=True)) if term[0] != "="]
    total = sum(value for _, value in words) or 1.0
    shares = np.zeros(count)
    for row, value in words:
        shares += (table[row] > 0) * (value / total)
    return shares


# --- one episode as text ----------------------------------------------------------------------------------------


def hunks_that_matter(commit: Commit, words: Sequence[str], budget: int) -> tuple[int, ...]:
    """Ordinals of the hunks that say most of the words, as many as fit beside the message."""
    budget = min(budget - token_cost(tell(commit, ())), HUNK_TOKENS)
    chosen: list[int] = []
    for hunk in sorted(commit.hunks, key=lambda hunk: (-_mentions(hunk, words), hunk.ordinal)):
        cost = token_cost(_drawn(hunk)) + 1
        if cost <= budget and len(chosen) < 3 and (_mentions(hunk, words) or not chosen):
            chosen.append(hunk.ordinal)
            budget -= cost
    return tuple(sorted(chosen))


def _mentions(hunk: Hunk, words: Sequence[str]) -> int:
    said = hunk.text.lower()
    return sum(word.encode() in said for word in words)


def tell(commit: Commit, ordinals: Sequence[int]) -> str:
    """The commit as text: who and when, the message as written, the files, the chosen hunks."""
    when = format_instant(commit.authored) or f"{commit.authored} s"
    lines = [f"commit {commit.id.hex()}", f"Author: {' '.join(commit.author.split())}", f"Date: {when}", ""]
    message = commit.message.strip("\n").encode()[:MESSAGE_BYTES].decode("utf-8", "ignore")
    files = [_named(change.path, change.before, change.gone) for change in commit.files[:FILES_SHOWN]]
    if len(commit.files) > FILES_SHOWN or commit.cut:
        files.append("  ...")
    wanted = set(ordinals)
    hunks = [_drawn(hunk) for hunk in commit.hunks if hunk.ordinal in wanted]
    return "\n".join([*lines, message, "", "Files:", *files, *(f"\n{hunk}" for hunk in hunks)]) + "\n"


def _named(path: Path, before: Path | None, gone: bool) -> str:
    name = _shown(path)
    if gone:
        return f"  {name} (deleted)"
    if before is None:
        return f"  {name} (new)"
    return f"  {name}" if before == path else f"  {name} (was {_shown(before)})"


def _drawn(hunk: Hunk) -> str:
    body = hunk.text.decode("utf-8", "replace").split("\n")
    kept = body[:HUNK_LINES] + ([f"... {len(body) - HUNK_LINES} more lines"] if len(body) > HUNK_LINES else [])
    head = f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@ {_shown(hunk.path)}"
    return "\n".join([head, *kept]).rstrip("\n")


def _shown(path: Path) -> str:
    return path.decode("utf-8", "replace").replace("\n", "\ufffd")
