"""The fault book: faults that programs of this kind really had, as rows that tests point at.

    @fault(12)
    def test_...

A row stands for its kind: its tests try siblings of the case that gave it its name. `test_book.py` fails on a row
without a test and on a number that is no row. `python -m tests.faults` prints what each is shown by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.spec import named_by

_Test = TypeVar("_Test", bound=Callable[..., object])

AREAS: dict[str, dict[int, str]] = {
    "Opening repositories": {
        2: "another user's repository is told from no repository",
        5: "worktrees with relative paths open, and so does their repository",
        7: "what a partial clone never fetched is missing, not damaged",
        8: "an instant before a shallow clone's boundary is nothing, not the boundary",
        9: "a shallow clone cut inside a merge is walked to its end",
        10: "replace refs are ignored, and said to be",
        11: "a repository without commits serves its files",
        13: "worktrees and repositories inside are borders",
        14: "a submodule is skipped and counted",
        15: "a path that sparse checkout left out is not gone",
        16: "a sparse index is read",
        18: "names are bytes: two forms of one name are two files",
        19: "the user's own git never meets a lock of ours",
        21: "packs that gc deleted are let go",
        63: "a split index costs the index, not the answer",
        64: "a hook's environment leads to no other repository",
        67: "borrowed objects out of reach are named, and come back",
        68: "threads that read at once read what one would",
        69: "only the documented forms are revisions",
    },
    "Memory over history": {
        22: "memory is flat over a long history",
    },
    "Which bytes": {
        25: "bytes on disk decide what changed, no filter does",
        82: "files in any encoding are found",
        83: "a byte order mark hides no first line",
    },
    "Time": {
        26: "clocks that ran wrong hide no commit for ever",
        27: "a bare date means one instant, at any hour and in any zone",
        29: "a time that no calendar holds breaks nothing",
        31: "rewritten history answers from what is reachable now",
        70: "the reflog is never asked",
        72: "a side branch is not on the line before its merge",
    },
    "Parsing": {
        34: "a grammar that does not load costs its language",
        35: "a neighbour's choice of binding is told by the self-check",
        36: "deep nesting costs one file at most",
        37: "a native stack overflow does not end the process",
        39: "a parse that nothing stops is killed",
        40: "lock files are not parsed as code",
        41: "endless child lists end in time",
        43: "queries leak no memory",
        44: "a grammar that eats memory is shut out",
        115: "one module touches the binding, between stated bounds",
        116: "the file that fails is named, the rest is served",
    },
    "Tokens and budgets": {
        47: "special tokens in a text are text",
        49: "counting blocks nobody",
        50: "no vocabulary is ever downloaded",
        111: "the answer stays inside its budget, whatever it is",
    },
    "The store": {
        52: "dotted and hyphenated words are found, whole and in part",
        53: "words beside ideographs are found, and short ones",
        55: "a busy store is not a damaged one",
        57: "a rebuild because of damage says so",
        58: "no write-ahead log on a network file system",
        60: "a store that cannot be had costs no answer",
        61: "edits, branches and dead worktrees do not swell the store",
        62: "a killed owner's leftovers are removed",
        114: "the owner's death is its readers' turn",
    },
    "Staleness": {
        74: "a switched branch is served at once",
        75: "an edit of the same size and time is seen",
        76: "no stamp is newer than another, only different",
        78: "each of identical files keeps its own path and language",
        80: "what was left out is counted by reason",
        81: "every text file can be found, wherever it lies",
    },
    "Walking the tree": {
        84: "links are never followed",
        87: "huge and minified files stay below the caps",
        88: "ignored files are those of git",
    },
    "stdio": {
        89: "nothing but envelopes reaches stdout",
        93: "a line may be long, or too long, and the next one is read",
        94: "every bad line gets one answer",
        96: "no surrogate ever leaves",
        97: "many answers to a slow reader all arrive",
        98: "indexing blocks nobody",
        99: "an answer leaves when it is made",
    },
    "HTTP": {
        100: "only loopback hosts and no foreign origin are served",
        101: "no simple request runs, no open address without a token",
        102: "a body is bounded whatever its length claims",
    },
    "Relevance": {
        104: "parts of identifiers find them, whole ones first",
        107: "generated and vendored files come after",
        108: "no region and no content twice",
        109: "one absent word hides nothing",
        110: "path filters mean what they say, or are refused",
    },
}

BOOK: dict[int, str] = {number: title for rows in AREAS.values() for number, title in rows.items()}


def fault(*numbers: int) -> Callable[[_Test], _Test]:
    """Marks a test as showing that these kinds of fault cannot happen here."""
    unknown = [number for number in numbers if number not in BOOK]
    if unknown:
        raise LookupError(f"no such rows in the fault book: {unknown}")
    return pytest.mark.fault(*numbers)


def shown() -> dict[int, list[str]]:
    """Row -> the tests that name it."""
    return {int(number): tests for number, tests in named_by("fault").items()}
