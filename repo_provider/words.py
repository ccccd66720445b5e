"""How text becomes index terms, once, for both sides: what an index counts and what a question asks.

Pure. `lexical` counts terms of files with it, `planner` takes terms of questions from it, so neither side ever splits
where the other does not. It knows no language and no fields; which words of a question matter is the planner's.

A term is a stemmed subword (`parse2FAToken` -> `pars`, `2fa`, `token`) or, prefixed with `=`, a whole identifier of
several subwords joined in lower case (`=parse2fatoken`), the same for every way of spelling its case. CJK text,
which has no spaces, gives its characters and its pairs of neighbours.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

_SEPARATORS = bytes(
    byte if byte >= 0x80 or chr(byte).isalnum() or byte == 0x5F else 0x20 for byte in range(256)
)  # UTF-8's upper bytes stay: what they spell is decided once per distinct word
_LONGEST = 200
"""Bytes of one identifier that are looked at; beyond it is data, not a name."""

_PART = re.compile(
    r"""[A-Z]{2,}s(?![a-z])                                     # URLs, IDs
      | (?:[A-Z]+(?![a-z])|[A-Z]?[a-z]+)(?:\d++(?![A-Z]+(?![a-z])))?  # HTTP, Http, http, utf8, but the 2 of parse2FA
      | \d+(?:[A-Z]+(?![a-z]))?                                 # 404, 2FA
    """,
    re.VERBOSE | re.ASCII,
)
_HEX = re.compile(r"(?=[a-f]*\d)[0-9a-f]{16,}", re.ASCII)
_CJK = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)  # with Thai, Lao, Burmese and Khmer: scripts written without spaces

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being but by can could did do does doing
    during each for from further get had has have having he her here hers him his how i if in into is it its itself
    just like me more most my no nor not of off on once only or other our out over own please same she should show so
    some such than that the their them then there these they this those through to too under until up us use used
    uses using very was we were what when where which while who whom why will with without work works would you your
    """.split()
)
"""Words that carry a question's grammar. They are indexed like any other: a question of nothing else still counts."""


def identifiers(data: bytes) -> list[bytes]:
    """The words of a text in order: runs of letters, digits and `_`, and of any bytes that are not ASCII."""
    return data.translate(_SEPARATORS).split()


def count(data: bytes) -> Counter[str]:
    """How often each term stands in a text."""
    total: Counter[str] = Counter()
    for identifier, times in Counter(identifiers(data)).items():
        for term in terms(identifier):
            total[term] += times
    return total


def terms(identifier: bytes) -> tuple[str, ...]:
    """The index terms of one identifier: its stemmed subwords and, where it has several, itself as a whole."""
    parts = subwords(identifier[:_LONGEST].decode("utf-8", "ignore"))
    stems = tuple(map(stem, parts))
    return (*stems, whole(parts)) if len(parts) > 1 and identifier.isascii() else stems


def whole(parts: tuple[str, ...]) -> str:
    """The term of an identifier made of these subwords: `get`, `user` -> `=getuser`."""
    return "=" + "".join(parts)


def subwords(identifier: str) -> tuple[str, ...]:
    """Lower-case parts of a name in any case style, or of a run of any script."""
    return tuple(_ascii_parts(identifier) if identifier.isascii() else _unicode_parts(identifier))


def _ascii_parts(identifier: str) -> list[str]:
    parts: list[str] = []
    for piece in identifier.split("_"):
        if piece.isdigit() or (piece.isalpha() and (piece.islower() or piece.istitle() or piece.isupper())):
            parts.append(piece.lower())  # most are of one case: `_PART` would say the same
        elif _HEX.fullmatch(piece):
            parts.append(piece)  # an object id is one word
        elif piece:
            parts += map(str.lower, _PART.findall(piece))
    return parts


def _unicode_parts(identifier: str) -> Iterator[str]:
    for piece in re.findall(r"\w+", unicodedata.normalize("NFKC", identifier)):
        end = 0
        for run in _CJK.finditer(piece):
            yield from _cased_parts(piece[end : run.start()])
            yield from run[0]
            yield from (run[0][i : i + 2] for i in range(len(run[0]) - 1))
            end = run.end()
        yield from _cased_parts(piece[end:])


def _cased_parts(piece: str) -> Iterator[str]:
    """Parts of a piece of an alphabet that has accents and perhaps case: `CaféCrème` -> `cafe`, `creme`."""
    plain = "".join(c for c in unicodedata.normalize("NFD", piece) if not "\u0300" <= c <= "\u036f")
    if plain.isascii():
        yield from _ascii_parts(plain)
        return
    for part in plain.split("_"):
        bounds = [i for i in range(1, len(part)) if part[i].isupper() and not part[i - 1].isupper()]
        for start, end in zip([0, *bounds], [*bounds, len(part)], strict=True):
            if end > start:
                yield part[start:end].casefold()


# --- stems -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A word without its plural, past or progressive ending: `routes`, `routed`, `routing` -> `rout`.

    Cuts little: endings that change what a word means in code (`parser`, `parse`) stay apart.
    """
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    return _without_e(_without_verb_ending(_singular(word)))


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_verb_ending(word: str) -> str:
    for ending in ("ing", "ed"):
        kept = word[: -len(ending)]
        if word.endswith(ending) and len(kept) > 2 and _VOWEL.search(kept):
            return kept[:-1] if kept[-1] == kept[-2] and kept[-1] not in "lsz" else kept
    return word


_VOWEL = re.compile("[aeiouy]")


def _without_e(word: str) -> str:
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


_DERIVED = (
    ("ization", "iz"), ("isation", "is"), ("ation", "at"), ("ition", "it"), ("izer", "iz"), ("ator", "at"),
    ("ment", ""), ("ness", ""), ("anc", ""), ("enc", ""), ("abl", ""), ("ibl", ""), ("ity", ""), ("ery", ""),
    ("ion", ""), ("er", ""), ("or", ""), ("iv", ""), ("al", ""), ("ly", ""), ("y", ""),
)  # fmt: skip


@lru_cache(maxsize=1 << 16)
def root(stemmed: str) -> str:
    """A stem without the ending that makes a doer or a thing of a verb: router, validation -> rout, validat.

    For names of files, where `recoverer` is as good an answer to "recovery" as it gets. Too coarse for texts.
    """
    if not stemmed.isascii() or not stemmed.isalpha():
        return stemmed
    for ending, instead in _DERIVED:
        kept = stemmed[: -len(ending)]
        if stemmed.endswith(ending) and len(kept) > 2 and _VOWEL.search(kept):
            doubled = ending in ("er", "or") and len(kept) > 3 and kept[-1] == kept[-2] and kept[-1] not in "lsz"
            return (kept[:-1] if doubled else kept) + instead
    return stemmed
