"""Relations, outlines as frames and anchors of the whole provider, over real repositories."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

import pytest

from repo_provider import syntax
from repo_provider.files import language_of
from repo_provider.model import Path as Inside
from repo_provider.protocol import ContextFrame, ContextQuery, ContextQueryResult, FrameId, Relation, parse_instant
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from tests.repos import Gitlink, Link, Made, make_repo
from tests.spec import requirement

RETRY = '''"""Retries with a limit."""


class RetryPolicy:
    """How often a request is tried again."""

    def next_delay(self, attempt: int) -> float:
        """Exponential backoff, capped."""
        return capped(2.0**attempt)


def capped(seconds: float) -> float:
    return min(seconds, 60.0)
'''
CLIENT = '''from net.retry import RetryPolicy


def fetch(url: str, policy: RetryPolicy) -> bytes:
    """Fetch a url, trying again as the policy says."""
    delay = policy.next_delay(1)
    return b""
'''
TEST = """from net.client import fetch
from net.retry import RetryPolicy


def test_fetch_waits() -> None:
    assert fetch("x", RetryPolicy()) == b""
"""
GUIDE = "# Guide\n\n## Retries\n\nThe retry policy is `RetryPolicy` in `src/net/retry.py`; `fetch()` asks it.\n"
FILES: dict[str | bytes, str | bytes | Link | Gitlink | None] = {
    "src/net/__init__.py": "",
    "src/net/retry.py": RETRY,
    "src/net/client.py": CLIENT,
    "tests/test_client.py": TEST,
    "docs/guide.md": GUIDE,
}
THEN = "2026-01-15T00:00:00Z"


@pytest.fixture
def made() -> Made:
    return make_repo(
        [("2026-01-01", FILES), ("2026-02-01", {"src/net/unrelated.py": "def zanzibar():\n    return 1\n"})]
    )


def serving(made: Made, **changes: object) -> Provider:
    return Provider(Settings(path=str(made.path), workers=1, **changes))  # type: ignore[arg-type]  # by name


@pytest.fixture
def provider(made: Made) -> Iterator[Provider]:
    opened = serving(made)
    yield opened
    opened.close()


def ask(provider: Provider, goal: str, deadline: float | None = None, **members: object) -> ContextQueryResult:
    given: dict[str, object] = {"max_frames": 20, "max_tokens": 20_000, **members}
    return provider.query(ContextQuery(goal=goal, **given), deadline)  # type: ignore[arg-type]  # by name


def related(frames: Sequence[ContextFrame], rel: str = "code.") -> list[Relation]:
    return [relation for frame in frames for relation in frame.relations if relation.rel.startswith(rel)]


def named(frames: Sequence[ContextFrame], part: str) -> ContextFrame:
    return next(frame for frame in frames if part in frame.id)


def is_anchored(frame: ContextFrame, uri: str) -> bool:
    return frame.uri == uri or any(relation.target_uri == uri for relation in frame.relations)


# --- relations


@requirement("G1", "G2", "U3")
@pytest.mark.parametrize("as_of", [None, THEN])
def test_every_relation_leads_to_a_file_or_definition_that_is_there(
    made: Made, provider: Provider, as_of: str | None
) -> None:
    frames = ask(provider, "retry policy next delay fetch url", as_of=as_of).frames
    assert {"code.calls", "code.defines", "code.imports", "code.references", "doc.documents"} <= {
        relation.rel for relation in related(frames, "")
    }
    for relation in related(frames, ""):
        assert relation.display_name.strip()
        assert relation.rel.startswith(("code.", "doc.", "git:"))
        if relation.target_uri.startswith("file://"):
            assert Path(os.fsdecode(unquote_to_bytes(relation.target_uri.removeprefix("file://")))).is_file()
        else:
            path, _, name = relation.target_uri.removeprefix("symbol:///").partition("#")
            data = (made.path / unquote(path)).read_bytes()
            inside = Inside(unquote_to_bytes(path))
            outline = syntax.outline(data, language_of(inside, data).name)
            assert unquote(name) in {one.qualified for one in outline.definitions}


def test_a_function_says_what_it_defines_calls_and_imports(made: Made, provider: Provider) -> None:
    frame = named(ask(provider, "fetch url trying again").frames, "client.py")
    assert [
        ("code.calls", "symbol:///src/net/retry.py#RetryPolicy.next_delay"),
        ("code.defines", "symbol:///src/net/client.py#fetch"),
        ("code.imports", f"file://{made.path}/src/net/retry.py"),
        ("code.references", "symbol:///src/net/retry.py#RetryPolicy"),
    ] == [(relation.rel, relation.target_uri) for relation in frame.relations]
    assert "RetryPolicy.next_delay in src/net/retry.py" == frame.relations[0].display_name


def test_a_section_documents_what_it_names(made: Made, provider: Provider) -> None:
    frame = named(ask(provider, "retry policy guide", kinds=("doc",)).frames, "guide.md")
    assert {
        ("doc.documents", f"file://{made.path}/src/net/retry.py"),
        ("doc.documents", "symbol:///src/net/retry.py#RetryPolicy"),
        ("doc.documents", "symbol:///src/net/client.py#fetch"),
    } == {(relation.rel, relation.target_uri) for relation in frame.relations}


def test_an_old_frame_imports_files_by_the_names_of_today(made: Made, provider: Provider) -> None:
    made.commit("2026-03-01", {"src/net/retry.py": None, "src/net/again.py": RETRY})
    frame = named(ask(provider, "fetch url trying again", as_of=THEN).frames, "client.py")
    assert [f"file://{made.path}/src/net/again.py"] == [r.target_uri for r in frame.relations if "imports" in r.rel]
    assert "symbol:///src/net/retry.py#RetryPolicy" in {relation.target_uri for relation in frame.relations}


def test_copies_of_an_old_frame_are_where_they_are_today_or_nowhere() -> None:
    made = make_repo(
        [
            ("2026-01-01", {"a/retry.py": RETRY, "b/retry.py": RETRY, "c/retry.py": RETRY}),
            ("2026-02-01", {"b/retry.py": None, "c/retry.py": None, "d/retry.py": RETRY}),
        ]
    )
    provider = serving(made)
    (frame,) = ask(provider, "retry policy", as_of=THEN, max_frames=1).frames
    provider.close()
    copies = [relation.target_uri for relation in related([frame], "git:same-content")]
    assert len(copies) < 2
    assert all(Path(uri.removeprefix("file://")).is_file() for uri in copies)


@requirement("P1")
def test_cold_warm_and_no_store_give_equal_relations(made: Made, tmp_path: Path) -> None:
    goals = ("retry policy next delay", "fetch url", "outline of client.py", "guide to retries")
    anchors = (f"file://{made.path}/src/net/retry.py",)

    def answers(provider: Provider, order: Sequence[str]) -> dict[tuple[str, str | None], ContextQueryResult]:
        return {
            (goal, as_of): ask(provider, goal, as_of=as_of, anchors=anchors) for goal in order for as_of in (None, THEN)
        }

    without = serving(made)
    cold = answers(without, goals)
    assert cold == answers(without, goals[::-1])
    without.close()
    for _ in range(2):
        stored = serving(made, store=str(tmp_path / "store"))
        assert cold == answers(stored, goals[::-1])
        stored.index()
        assert cold == answers(stored, goals)
        stored.close()
    assert any(related(answer.frames) for answer in cold.values())


def test_a_build_file_that_is_edited_is_heeded_at_the_next_question(made: Made, provider: Provider) -> None:
    made.write("web/lib/tool.ts", "export function sharpen() {}\n")
    made.write("web/main.ts", "import { sharpen } from '#tool'\n\nexport function zebra() { sharpen() }\n")
    made.write("web/tsconfig.json", '{"compilerOptions": {"paths": {"#tool": ["./lib/none.ts"]}}}')
    assert [] == related(ask(provider, "zebra", kinds=("snippet",)).frames[:1], "code.calls")
    made.write("web/tsconfig.json", '{"compilerOptions": {"paths": {"#tool": ["./lib/tool.ts"]}}}')
    found = related(ask(provider, "zebra", kinds=("snippet",)).frames[:1], "code.calls")
    assert ["symbol:///web/lib/tool.ts#sharpen"] == [relation.target_uri for relation in found]


def test_past_the_deadline_relations_are_left_out_and_the_answer_is_a_cut_one(made: Made) -> None:
    said: list[str] = []
    provider = Provider(Settings(path=str(made.path), workers=1), log=said.append)
    whole = ask(provider, "fetch url trying again")
    provider.close()
    provider = Provider(Settings(path=str(made.path), workers=1), log=said.append)
    cut = ask(provider, "fetch url trying again", deadline=time.monotonic() - 1)
    provider.close()
    assert related(whole.frames)
    assert cut.truncated
    assert cut.dropped_estimate is None
    assert [] == related(cut.frames)


def test_a_bare_repository_has_relations_to_definitions_and_none_to_files() -> None:
    bare = make_repo([("2026-01-01", FILES)], bare=True)
    opened = serving(bare)
    found = {
        relation.target_uri.partition(":")[0] for relation in related(ask(opened, "retry policy fetch").frames, "")
    }
    opened.close()
    assert {"symbol"} == found


# --- outlines as frames


@requirement("kind", "D1", "D3", "B3")
@pytest.mark.parametrize("as_of", [None, THEN])
def test_an_outline_is_a_frame_with_a_digest_of_what_it_cites(
    made: Made, provider: Provider, as_of: str | None
) -> None:
    frames = ask(provider, "retry policy", kinds=("graph",), as_of=as_of).frames
    assert {"graph"} == {frame.kind for frame in frames}
    frame = frames[0]
    assert frame.id.startswith("graph:src/net/retry.py")
    assert f"{frame.content}".startswith(
        "Python, 13 lines.\n\nDefines 3 names:\n- class RetryPolicy, lines 4-9: How often"
    )
    assert "sha256:" + hashlib.sha256(frame.content.encode()).hexdigest() == frame.content_digest
    assert -(-len(frame.content.encode()) // 4) == frame.token_cost
    assert "summarized" == frame.content_fidelity
    first = frame.provenance[0]
    assert ("derivation", "sha256:" + hashlib.sha256(RETRY.encode()).hexdigest()) == (first.type, first.digest)
    assert first.uri == frame.uri
    assert "2026-01-01T00:00:00Z" == frame.valid_from
    if as_of is None:
        assert f"file://{made.path}/src/net/retry.py" == frame.uri
        assert ["derivation", "git"] == [link.type for link in frame.provenance]
    else:
        assert "swh:1:cnt:" in f"{frame.uri}"
        assert frame.id.endswith(f"@{made.commits[0].hex()}")


def test_an_outline_is_a_function_of_the_file_alone(made: Made, provider: Provider) -> None:
    before = named(ask(provider, "fetch url", kinds=("graph",)).frames, "client.py")
    made.write("src/net/retry.py", "# nothing here any more\n")
    after = named(ask(provider, "fetch url", kinds=("graph",)).frames, "client.py")
    assert (before.content, before.content_digest) == (after.content, after.content_digest)


def test_one_outline_answers_what_is_in_a_file_and_none_answers_anything_else(provider: Provider) -> None:
    for goal in ("what is in src/net/retry.py", "structure of the retry module", "what does client.py import?"):
        frames = ask(provider, goal).frames
        assert ["graph"] == [frame.kind for frame in frames if frame.kind == "graph"]
        assert "graph" == frames[0].kind
        assert list(frames) == sorted(frames, key=lambda frame: -frame.score)
        assert len(frames) == len({frame.content_digest for frame in frames})
    for goal in ("retry policy", "how does fetch wait"):
        assert not any(frame.kind == "graph" for frame in ask(provider, goal).frames)


def test_who_imports_a_file_is_answered_with_the_outlines_of_those(made: Made, provider: Provider) -> None:
    for goal in ("what imports src/net/retry.py", "who imports RetryPolicy?"):
        frames = ask(provider, goal).frames
        told = [frame for frame in frames if frame.kind == "graph"]
        assert {"graph:src/net/client.py", "graph:tests/test_client.py"} == {frame.id for frame in told}
        assert all(is_anchored(frame, f"file://{made.path}/src/net/retry.py") for frame in told)
    assert not any(frame.kind == "graph" for frame in ask(provider, "what imports nothing").frames)


def held(frames: Sequence[ContextFrame]) -> list[FrameId]:
    return [FrameId("repo-provider", frame.id, frame.content_digest) for frame in frames]


VERIFYING = (
    "import json, sys\n"
    "from repo_provider.protocol import FrameId\n"
    "from repo_provider.provider import Provider\n"
    "from repo_provider.settings import Settings\n"
    "provider = Provider(Settings(path=sys.argv[1], workers=1))\n"
    "held = [FrameId(*one) for one in json.load(sys.stdin)]\n"
    "print(json.dumps([[one.status, one.replacement_digest] for one in provider.verify(held)]))\n"
    "provider.close()\n"
)


@requirement("V2", "V3", "P4")
def test_another_process_gives_the_verdict_on_an_outline(made: Made, provider: Provider) -> None:
    frames = ask(provider, "retry policy fetch", kinds=("graph",)).frames
    old = ask(provider, "retry policy fetch", kinds=("graph",), as_of=THEN).frames
    asked = [named(frames, "retry.py"), named(frames, "client.py"), named(old, "retry.py"), named(old, "client.py")]

    def verdicts() -> list[list[str | None]]:
        identities = [[one.provider_id, one.frame_id, one.content_digest] for one in held(asked)]
        ran = subprocess.run(
            [sys.executable, "-c", VERIFYING, str(made.path)],
            input=json.dumps(identities),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        found: list[list[str | None]] = json.loads(ran.stdout)
        return found

    assert [["valid", None]] * 4 == verdicts()
    made.write("src/net/retry.py", RETRY.replace("capped", "limited"))
    made.delete("src/net/client.py")
    changed = named(ask(provider, "retry policy", kinds=("graph",)).frames, "retry.py")
    assert [["stale", changed.content_digest], ["gone", None], ["valid", None], ["valid", None]] == verdicts()
    made.write("src/net/retry.py", RETRY + "# more\n")
    assert "stale" == verdicts()[0][0]


def test_an_outline_is_read_again_by_its_id(provider: Provider) -> None:
    frame = ask(provider, "retry policy", kinds=("graph",)).frames[0]
    again = provider.read(frame.id, 2_000).frame
    assert (frame.id, frame.content, frame.uri, frame.valid_from) == (
        again.id,
        again.content,
        again.uri,
        again.valid_from,
    )


# --- anchors


@requirement("G3", "G4", "anchors")
def test_whatever_a_relation_points_at_can_be_anchored(provider: Provider) -> None:
    frames = ask(provider, "retry policy next delay fetch url").frames
    uris = {relation.target_uri for relation in related(frames, "")} | {f"{frame.uri}" for frame in frames}
    for uri in sorted(uris):
        answer = ask(provider, "conformance probe", anchors=(uri,), max_frames=8).frames
        assert is_anchored(answer[0], uri), uri
        assert list(answer) == sorted(answer, key=lambda frame: -frame.score)


@requirement("G4")
def test_near_an_anchored_definition_are_its_callers_and_its_tests(provider: Provider) -> None:
    uri = "symbol:///src/net/client.py#fetch"
    answer = ask(provider, "how it works", anchors=(uri,), kinds=("snippet", "symbol")).frames
    assert answer[0].id == "snippet:src/net/client.py#fetch"
    found = [frame.id for frame in answer]
    test = next(at for at, one in enumerate(found) if "tests/test_client.py" in one)
    assert all("unrelated" not in one for one in found[: test + 1])
    assert is_anchored(answer[test], uri)
    assert any("src/net/retry.py" in one for one in found)


def test_near_an_anchored_file_are_those_that_import_it_and_those_it_imports(made: Made, provider: Provider) -> None:
    anchor = f"file://{made.path}/src/net/client.py"
    found = [frame.id for frame in ask(provider, "zanzibar", anchors=(anchor,)).frames]
    assert "src/net/client.py" in found[0]
    assert any("src/net/retry.py" in one for one in found)
    assert any("tests/test_client.py" in one for one in found)
    importer = named(ask(provider, "zanzibar", anchors=(anchor,)).frames, "tests/test_client.py")
    assert is_anchored(importer, anchor)


def test_files_that_changed_together_are_near_each_other(made: Made, provider: Provider) -> None:
    made.commit("2026-03-01", {"a/left.txt": "one\n", "b/right.txt": "two\n"})
    found = [frame.id for frame in ask(provider, "zanzibar", anchors=("a/left.txt",)).frames]
    assert any("b/right.txt" in one for one in found)


@requirement("G3", "G4")
def test_the_uri_of_an_old_frame_brings_that_frame_back(made: Made, provider: Provider) -> None:
    made.commit("2026-03-01", {"src/net/long.py": "".join(f"line_{at} = {at}\n" for at in range(300))})
    for frame in ask(provider, "fetch url line_150", as_of="2026-03-02T00:00:00Z", max_tokens=900).frames:
        answer = ask(provider, "probe", as_of="2026-03-02T00:00:00Z", anchors=(f"{frame.uri}",)).frames
        assert frame.uri == answer[0].uri


@requirement("G4", "Q2")
def test_an_anchor_holds_for_the_past_too(made: Made, provider: Provider) -> None:
    uri = "symbol:///src/net/client.py#fetch"
    answer = ask(provider, "how it works", anchors=(uri,), as_of=THEN).frames
    assert is_anchored(answer[0], uri)
    assert all(frame.valid_from is None or parse_instant(frame.valid_from) <= parse_instant(THEN) for frame in answer)
