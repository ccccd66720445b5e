"""Outlines of real repositories, language by language: how fast beside a bare parse, how complete beside ctags.

    python -m tests.bench languages --repo PATH [--repo PATH ...] [--language NAME ...] [--megabytes N] [--json FILE]
    python -m tests.bench languages --repo PATH [--repo PATH ...] [--language NAME ...] --ctags [--show N] [--json FILE]

Speed: megabytes a second of processor time for a bare tree-sitter parse, for a parse with the same query whose
matches are thrown away, and for the outline.

ctags (Universal Ctags): definitions, a name on a line of a file, that both find, only we find and only ctags finds,
with the kinds that make up each; `--show` prints some of those that one alone finds. What ctags lists and nobody asks
for by name is counted apart: imports and package statements, what has no name, values inside functions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec import json as msgspec_json

from repo_provider import files, syntax
from repo_provider.model import Definition, Outline, Text
from repo_provider.model import Path as RepositoryPath
from repo_provider.repository import Repository

File = tuple[str, bytes]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repo", action="append", required=True)
    parser.add_argument("--language", action="append", help="only these")
    parser.add_argument("--megabytes", type=float, default=2.0, help="of each language at most, for the speed")
    parser.add_argument("--ctags", action="store_true")
    parser.add_argument("--show", type=int, default=0, help="examples of what one alone finds")
    parser.add_argument("--json", help="also write the rows to this file")
    typed = parser.parse_args()
    if typed.ctags and not shutil.which("ctags"):
        raise SystemExit("ctags is not installed")
    found = texts([os.path.abspath(repo) for repo in typed.repo])
    print(_CTAGS_HEADER if typed.ctags else _SPEED_HEADER)
    rows: list[dict[str, object]] = []
    for language in sorted(typed.language or found):
        taken = found.get(language, [])
        row = beside_ctags(language, taken, typed.show) if typed.ctags else speed(language, taken, typed.megabytes)
        rows.append({"language": language, **row})
    if typed.json:
        Path(typed.json).write_text(json.dumps(rows, indent=1))


def texts(repositories: Sequence[str]) -> dict[str, list[File]]:
    """Absolute path and bytes of every text that has a language in depth, by language."""
    found: dict[str, list[File]] = {}
    for root in repositories:
        repository = Repository.open(root)
        snapshot = repository.working_tree()
        for path in snapshot.entries:
            data = repository.read(snapshot, path)
            if data and len(data) <= syntax.MAX_BYTES and files.unserved(path, data) is None:
                language = files.language_of(RepositoryPath(path), data)
                if language.level == "depth":
                    found.setdefault(language.name, []).append((os.path.join(root, os.fsdecode(path)), data))
    return found


# --- speed -----------------------------------------------------------------------------------------------------

_SPEED_HEADER = f"{'language':16}{'MB':>7}{'parse':>9}{'+ query':>9}{'outline':>9}  MB/s; outline : parse + query"


def speed(language: str, found: Sequence[File], megabytes: float) -> dict[str, float]:
    from tree_sitter import QueryCursor

    taken = _sample(found, megabytes * 1e6)
    analyser = syntax._analyser(language)
    assert not isinstance(analyser, str), analyser

    def parse(data: bytes) -> None:
        analyser.parser.parse(data)

    def query(data: bytes) -> None:
        root = analyser.parser.parse(data).root_node
        QueryCursor(analyser.query, match_limit=syntax.MATCH_LIMIT).matches(root)

    row = {"MB": sum(len(data) for _, data in taken) / 1e6}
    row |= {work.__name__: row["MB"] / _seconds(work, taken) for work in (parse, query, analyser.outline)}
    shown = "".join(f"{row[name]:9.2f}" for name in ("parse", "query", "outline"))
    print(f"{language:16}{row['MB']:7.2f}{shown}  {row['query'] / row['outline']:.2f}", flush=True)
    return row


def _seconds(work: Callable[[bytes], object], taken: Sequence[File]) -> float:
    """Processor time, the better of two."""
    best = float("inf")
    for _ in range(2):
        started = time.process_time()
        for _, data in taken:
            work(data)
        best = min(best, time.process_time() - started)
    return max(best, 1e-9)


def _sample(found: Sequence[File], most: float) -> list[File]:
    taken: list[File] = []
    size = 0
    for path, data in random.Random(0).sample(found, len(found)):
        taken.append((path, data))
        size += len(data)
        if size > most:
            break
    return taken


# --- ctags -----------------------------------------------------------------------------------------------------

_CTAGS_HEADER = f"{'language':16}{'both':>8}{'only we':>9}{'only ctags':>11}{'not asked':>11}"
_CTAGS_NAMES = {"cpp": "C++", "csharp": "C#", "objc": "ObjectiveC", "tsx": "TypeScript", "jsx": "JavaScript"}
_CTAGS_NAMES |= {"javascript": "JavaScript", "typescript": "TypeScript", "php": "PHP", "sql": "SQL", "bash": "Sh"}
_CTAGS_NAMES |= {"ocaml": "OCaml"}
_NO_DEFINITIONS: Mapping[str, frozenset[str]] = {
    "bash": frozenset(("heredoc", "script")),
    "go": frozenset(("package", "packageName")),
    "haskell": frozenset(("module",)),
    "java": frozenset(("package",)),
    "kotlin": frozenset(("package",)),
    "perl": frozenset(("label", "format")),
    "php": frozenset(("alias", "namespace")),
    "python": frozenset(("namespace", "module", "unknown")),
    "rust": frozenset(("implementation",)),
}
"""Kinds of ctags that open, import or continue something defined elsewhere."""
_VALUES = frozenset(("variable", "constant", "property", "field", "member", "alias", "var"))
_FUNCTIONS = frozenset(("function", "method", "constructor", "test", "macro", "property"))
_NEAR = 2
"""One name in one file counts as found by both where the lines are at most so far apart."""


class Tag(Struct):
    name: str
    path: str
    line: int
    kind: str


def beside_ctags(language: str, taken: Sequence[File], show: int) -> dict[str, object]:
    theirs = ctags(language, [path for path, _ in taken])
    if theirs is None:
        print(f"{language:16}ctags does not know it", flush=True)
        return {}
    outlines = {path: (Text(data), syntax.outline(data, language)) for path, data in taken}
    ours = [tag for path, (text, outline) in outlines.items() for tag in _tags(language, path, text, outline)]
    asked = [tag for tag in theirs if not _is_local(tag, *outlines[tag.path])]
    near_ours, near_theirs = _near(ours), _near(theirs)
    only_ours = [tag for tag in ours if (tag.path, tag.line, tag.name) not in near_theirs]
    only_theirs = [tag for tag in asked if (tag.path, tag.line, tag.name) not in near_ours]
    row = {
        "both": len(ours) - len(only_ours),
        "only_ours": len(only_ours),
        "only_ctags": len(only_theirs),
        "not_asked": len(theirs) - len(asked),
        "kinds_only_ours": Counter(tag.kind for tag in only_ours).most_common(6),
        "kinds_only_ctags": Counter(tag.kind for tag in only_theirs).most_common(6),
    }
    counts = f"{row['both']:8}{row['only_ours']:9}{row['only_ctags']:11}{row['not_asked']:11}"
    print(f"{language:16}{counts}  we: {_kinds(only_ours)}; ctags: {_kinds(only_theirs)}", flush=True)
    for side, tags in (("we", only_ours), ("ctags", only_theirs)):
        for tag in random.Random(0).sample(tags, min(show, len(tags))):
            print(f"    only {side}: {tag.path}:{tag.line} {tag.name} ({tag.kind})")
    return row


def ctags(language: str, paths: Iterable[str]) -> list[Tag] | None:
    """What ctags finds that has a name and is defined there; None where it does not know the language."""
    forced = _CTAGS_NAMES.get(language, language.capitalize())
    command = ["ctags", f"--language-force={forced}", "--extras=-{anonymous}", "--kinds-C=+p", "--kinds-C++=+p"]
    command += ["--output-format=json", "--fields=+nK", "-f", "-", "-L", "-"]
    done = subprocess.run(command, input="\n".join(paths).encode(), capture_output=True, check=False)
    if done.returncode or b"Unknown language" in done.stderr:
        return None
    left_out = _NO_DEFINITIONS.get(language, frozenset())
    tags = (msgspec_json.decode(line, type=Tag) for line in done.stdout.splitlines() if b'"line"' in line)
    named = (tag for tag in tags if tag.kind not in left_out and not _ANONYMOUS.match(tag.name))
    return [Tag(_bare(language, tag.name), tag.path, tag.line, tag.kind) for tag in named]


_ANONYMOUS = re.compile(r"__anon|Anonymous|<")


def _bare(language: str, name: str) -> str:
    """A name without what qualifies it: `M.f` in Lua, `A::B` in Perl, `draw:at:` in Objective-C is `draw`."""
    if name.startswith("operator "):
        return name.replace(" ", "", 1)
    if language == "objc":
        return name.partition(":")[0]
    if language == "julia":
        name = name.partition("{")[0]
    return re.split(r"::|[.:\\](?=\w)", name)[-1] if re.fullmatch(r"[\w.:\\?!=]+", name) else name


def _tags(language: str, path: str, text: Text, outline: Outline) -> list[Tag]:
    return [Tag(_bare(language, one.name), path, text.line_of(one.name_at), one.kind) for one in outline.definitions]


def _is_local(tag: Tag, text: Text, outline: Outline) -> bool:
    """Whether it is a value inside a function, as our outline knows functions."""
    around: Definition | None = None
    for one in outline.definitions:
        first, last = text.lines(one.span)
        if first < tag.line <= last and text.line_of(one.name_at) != tag.line:
            around = one
    return around is not None and tag.kind in _VALUES and around.kind in _FUNCTIONS


def _near(tags: Iterable[Tag]) -> set[tuple[str, int, str]]:
    return {(tag.path, tag.line + offset, tag.name) for tag in tags for offset in range(-_NEAR, _NEAR + 1)}


def _kinds(tags: Sequence[Tag]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in Counter(tag.kind for tag in tags).most_common(6))


if __name__ == "__main__":
    main()
