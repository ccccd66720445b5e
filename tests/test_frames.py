"""Packing, naming, building and judging frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from repo_provider.errors import BudgetUnsatisfiable
from repo_provider.frames import (
    FrameName,
    Missing,
    Origin,
    Piece,
    Selection,
    build,
    derived,
    format_name,
    parse_name,
    printable,
    select,
    verdict,
)
from repo_provider.model import BlobId, CommitId, Definition, Hit, Outline, Path, Span, Text
from repo_provider.protocol import KINDS, Digest, FrameId, FrameVerdict, Provenance, Relation, digest, token_cost
from tests.faults import fault
from tests.spec import requirement

COMMIT = CommitId(bytes.fromhex("c0" * 20))
BLOB = BlobId(bytes.fromhex("b1" * 20))
A, B, C, D = Path(b"a.py"), Path(b"b.py"), Path(b"c.py"), Path(b"d.py")


def numbered(count: int, width: int = 40) -> bytes:
    """Lines that differ from each other, `width` bytes each."""
    return b"".join(f"line {number} ".ljust(width - 1, "x").encode() + b"\n" for number in range(1, count + 1))


def lines(text: Text, first: int, last: int) -> Span:
    span = text.span(first, last)
    assert span is not None
    return span


def hit(path: Path, span: Span, score: float = 0.5, kind: str = "snippet", **more: object) -> Hit:
    return Hit(path, kind, span, score, **more)  # type: ignore[arg-type]  # whatever a test needs of it


def whole(data: bytes) -> Span:
    return Span(0, len(data))


# --- names -----------------------------------------------------------------------------------------------------


@requirement("stable-id")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("snippet:src/net.rs#Client.retry", FrameName("snippet", Path(b"src/net.rs"), "Client.retry")),
        ("snippet:src/net.rs#Client.retry~1", FrameName("snippet", Path(b"src/net.rs"), "Client.retry", 1)),
        ("snippet:src/net.rs:L10-40", FrameName("snippet", Path(b"src/net.rs"), lines=(10, 40))),
        ("symbol:a.cc#%7EFoo~2", FrameName("symbol", Path(b"a.cc"), "~Foo", 2)),
        ("symbol:a.cc#operator%3D%3D", FrameName("symbol", Path(b"a.cc"), "operator==")),
        ("doc:b%E5.md#Getting%20started%20%23%201", FrameName("doc", Path(b"b\xe5.md"), "Getting started # 1")),
        ("doc:a%3Ab%23c%40d.md:L5", FrameName("doc", Path(b"a:b#c@d.md"), lines=(5, 5))),
        ("graph:src/net.rs", FrameName("graph", Path(b"src/net.rs"))),
        (f"graph:a@{'c0' * 20}", FrameName("graph", Path(b"a"), commit=COMMIT)),
        (f"snippet:~a:L1@{'c0' * 20}", FrameName("snippet", Path(b"~a"), lines=(1, 1), commit=COMMIT)),
        (f"episode:{'c0' * 20}", FrameName("episode", episode=COMMIT)),
        (f"episode:{'c0' * 20}+0,3", FrameName("episode", episode=COMMIT, hunks=(0, 3))),
        (f"episode:{'c0' * 20}+7@{'c0' * 20}", FrameName("episode", episode=COMMIT, hunks=(7,), commit=COMMIT)),
    ],
)
def test_a_frame_id_says_what_its_frame_holds(text: str, name: FrameName) -> None:
    assert text == format_name(name)
    assert name == parse_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "snippet",
        "snippet:",
        "snippet:a.py",  # neither a name nor lines
        "graph:a.py:L1",
        "graph:a.py#f",
        "memory:a.py#f",
        "snippet:#f",
        "snippet:a.py#",
        "snippet:a.py#f~0",
        "snippet:a.py#f~01",
        "snippet:a.py#f~" + "9" * 5000,
        "snippet:a.py#%FF",  # not UTF-8
        "snippet:a.py#%66",  # `f`, spelled in another way
        "snippet:%61.py#f",
        "snippet:a b.py#f",
        "snippet:a.py#f~1~2",
        "snippet:a.py:L0",
        "snippet:a.py:L5-5",
        "snippet:a.py:L9-5",
        "snippet:a.py:L1-" + "9" * 5000,
        "snippet:a.py#f:L1-2",
        "snippet:a.py#f@c0",
        f"snippet:a.py#f@{'C0' * 20}",
        f"snippet:a.py#f@{'c0' * 20}\n",
        f"episode:{'c0' * 20}+",
        f"episode:{'c0' * 20}+3,0",
        f"episode:{'c0' * 20}+0,0",
        "episode:HEAD",
        "snippet:a.py#\ud800",
        "snippet:\N{ARABIC-INDIC DIGIT ONE}.py#f",
    ],
)
def test_any_other_text_is_no_frame_id(text: str) -> None:
    assert parse_name(text) is None


@given(st.text())
def test_what_is_read_as_a_frame_id_is_spelled_that_way(text: str) -> None:
    for frame_id in (text, f"snippet:{text}#f", f"snippet:a#{text}", f"doc:{text}:L1", f"episode:{text}"):
        name = parse_name(frame_id)
        assert name is None or frame_id == format_name(name)


names = st.one_of(
    st.builds(
        FrameName,
        st.sampled_from(["snippet", "symbol", "doc"]),
        st.binary(min_size=1),
        st.text(st.characters(codec=None), min_size=1),
        st.integers(0, 10**6),
        commit=st.none() | st.binary(min_size=20, max_size=20),
    ),
    st.builds(
        FrameName,
        st.sampled_from(["snippet", "symbol", "doc"]),
        st.binary(min_size=1),
        lines=st.tuples(st.integers(1, 10**9), st.integers(0, 10**6)).map(lambda pair: (pair[0], pair[0] + pair[1])),
        commit=st.none() | st.binary(min_size=20, max_size=20),
    ),
    st.builds(FrameName, st.just("graph"), st.binary(min_size=1)),
    st.builds(
        FrameName,
        st.just("episode"),
        episode=st.binary(min_size=20, max_size=20),
        hunks=st.sets(st.integers(0, 999)).map(lambda hunks: tuple(sorted(hunks))),
    ),
)


@given(names)
def test_every_name_comes_back(name: FrameName) -> None:
    text = format_name(name)
    assert text.isascii()
    assert name == parse_name(text)


# --- packing ---------------------------------------------------------------------------------------------------

CHOICES = [b"def f():\n", b"    return 1\n", b"\n", b"x" * 700 + b"\n", b"# fa\xe7ade\n", "größe\n".encode(), b"}\n"]
files = st.lists(st.sampled_from(CHOICES), min_size=1, max_size=60).map(b"".join)


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Hit], dict[Path, Text], dict[Path, Outline]]:
    texts = {path: Text(draw(files)) for path in (A, B, C)}
    if draw(st.booleans()):
        texts[C] = Text(texts[A].raw)
    if draw(st.booleans()):
        texts[B] = Text("\ufeffclass Größe\n{\n\n}\n".encode("utf-16-le"))
    outlines = {}
    for path, text in texts.items():
        cuts = draw(st.sets(st.sampled_from(text.starts), max_size=10))
        outlines[path] = Outline("python", blocks=tuple(sorted(cuts)))
    hits = []
    for _ in range(draw(st.integers(1, 12))):
        path = draw(st.sampled_from(sorted(texts)))
        text = texts[path]
        first, last = sorted(draw(st.tuples(st.integers(1, text.line_count), st.integers(1, text.line_count))))
        low, high = sorted(draw(st.tuples(st.integers(first, last), st.integers(first, last))))
        focus = draw(st.none() | st.just(lines(text, low, high)))
        name = draw(st.none() | st.just("f"))
        kind = draw(st.sampled_from(["snippet", "symbol"]))
        score = draw(st.sampled_from([0.0, 0.25, 0.5, 0.9]))
        hits.append(Hit(path, kind, lines(text, first, last), score, name, focus=focus))
    return [numbered_twin(hit, hits) for hit in hits], texts, outlines


def numbered_twin(hit: Hit, hits: Sequence[Hit]) -> Hit:
    """Definitions of one name in one file are told apart by their order."""
    twins = sorted({other.span for other in hits if other.name and other.path == hit.path})
    return replace(hit, ordinal=twins.index(hit.span)) if hit.name else hit


def chosen(
    question: tuple[Sequence[Hit], Mapping[Path, Text], Mapping[Path, Outline]], max_frames: int, max_tokens: int
) -> Selection:
    hits, texts, outlines = question
    try:
        return select(hits, texts, max_frames=max_frames, max_tokens=max_tokens, outlines=outlines)
    except BudgetUnsatisfiable:
        fitting = [hit for hit in hits if any(0 < cost <= max_tokens for cost in line_costs(texts[hit.path], hit.span))]
        assert not fitting
        return Selection(dropped=len(hits))


def line_costs(text: Text, span: Span) -> list[int]:
    first, last = text.lines(span)
    contents = [text.content(lines(text, line, line))[0] for line in range(first, last + 1)]
    return [token_cost(content) if content.strip() else 0 for content in contents]


budgets = st.tuples(st.integers(0, 12), st.one_of(st.integers(0, 60), st.integers(0, 2_000)))


@requirement("B1", "B3", "B4")
@given(questions(), budgets)
def test_no_budget_is_ever_exceeded(
    question: tuple[list[Hit], dict[Path, Text], dict[Path, Outline]], budget: tuple[int, int]
) -> None:
    max_frames, max_tokens = budget
    pieces = chosen(question, max_frames, max_tokens).pieces
    assert len(pieces) <= max_frames  # B4
    assert sum(piece.cost for piece in pieces) <= max_tokens  # B1
    for piece in pieces:
        assert -(-len(piece.content.encode("utf-8")) // 4) == piece.cost  # B3


@requirement("D1", "P2")
@given(questions(), budgets)
def test_every_piece_is_whole_lines_of_its_file(
    question: tuple[list[Hit], dict[Path, Text], dict[Path, Outline]], budget: tuple[int, int]
) -> None:
    for piece in chosen(question, *budget).pieces:
        text = question[1][piece.path]
        assert piece.span == text.whole_lines(piece.span.start, piece.span.end)
        assert (piece.content, piece.fidelity) == text.content(piece.span)
        assert piece.content.strip()
        assert digest(piece.content.encode("utf-8")) == piece.digest  # D1


@requirement("no-merge")
@given(questions(), budgets)
def test_no_two_pieces_share_a_line_or_a_digest(
    question: tuple[list[Hit], dict[Path, Text], dict[Path, Outline]], budget: tuple[int, int]
) -> None:
    pieces = chosen(question, *budget).pieces
    assert len({piece.digest for piece in pieces}) == len(pieces)
    links = [(piece.path, question[1][piece.path].cited(piece.span)[0]) for piece in pieces]
    assert len(set(links)) == len(links)
    for one in pieces:
        for two in pieces:
            if one is not two and question[1][one.path].raw == question[1][two.path].raw:
                assert one.span.end <= two.span.start or two.span.end <= one.span.start


@given(questions(), budgets, st.randoms(use_true_random=False))
def test_the_order_of_the_hits_does_not_matter(
    question: tuple[list[Hit], dict[Path, Text], dict[Path, Outline]], budget: tuple[int, int], random: object
) -> None:
    hits, texts, outlines = question
    shuffled = list(hits)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # Hypothesis hands in a random.Random
    selection = chosen(question, *budget)
    assert selection == chosen((shuffled, texts, outlines), *budget)
    assert sorted(-piece.hit.score for piece in selection.pieces) == [-p.hit.score for p in selection.pieces]


@given(questions(), budgets, st.integers(1, 9))
def test_model_tokens_fit_the_same_budget(
    question: tuple[list[Hit], dict[Path, Text], dict[Path, Outline]], budget: tuple[int, int], density: int
) -> None:
    hits, texts, outlines = question

    def counter(path: Path, span: Span, content: str) -> int | None:
        return None if "7" in content else -(-len(content.encode("utf-8")) // density)

    try:
        selection = select(hits, texts, max_frames=budget[0], max_tokens=budget[1], outlines=outlines, counter=counter)
    except BudgetUnsatisfiable:
        assume(False)
    assert all(counter(piece.path, piece.span, piece.content) == piece.tokens for piece in selection.pieces)
    assert sum(piece.tokens or len(piece.content.encode("utf-8")) for piece in selection.pieces) <= budget[1]


@requirement("D2", "stable-id")
@given(questions(), budgets, budgets)
def test_one_identity_has_one_content_whatever_the_budget(
    question: tuple[list[Hit], dict[Path, Text], dict[Path, Outline]], one: tuple[int, int], two: tuple[int, int]
) -> None:
    held: dict[str, str] = {}
    for budget in (one, two):
        for piece in chosen(question, *budget).pieces:
            frame = build(piece, question[1][piece.path], Origin("/r"))
            assert held.setdefault(frame.id, frame.content) == frame.content


def spans(selection: Selection) -> list[tuple[bytes, int, int]]:
    return [(piece.path, piece.span.start // 40 + 1, piece.span.end // 40) for piece in selection.pieces]


def test_a_small_definition_is_taken_whole() -> None:
    data = numbered(10)
    selection = select([hit(A, whole(data), name="f")], {A: Text(data)}, max_frames=8, max_tokens=4_000)
    assert [(A, 1, 10)] == spans(selection)
    assert "f" == selection.pieces[0].name
    assert not selection.truncated


def test_a_big_definition_is_cut_to_the_blocks_around_its_focus() -> None:
    data = numbered(400)
    text = Text(data)
    outline = Outline("python", blocks=tuple(line * 40 for line in range(5, 400, 10)))
    one = hit(A, whole(data), name="f", focus=lines(text, 200, 203))
    selection = select([one], {A: text}, max_frames=4, max_tokens=400, outlines={A: outline})
    assert [(A, 186, 225)] == spans(selection)  # four blocks of ten lines: 400 tokens exactly
    assert selection.pieces[0].name is None


def test_what_is_left_over_widens_the_best_piece() -> None:
    data = numbered(400)
    one = hit(A, whole(data), focus=lines(Text(data), 200, 201))
    alone = select([one], {A: Text(data)}, max_frames=8, max_tokens=900)
    assert [900] == [piece.cost for piece in alone.pieces]
    small = b"def g(): pass\n"
    both = select([one, hit(B, whole(small), 0.4)], {A: Text(data), B: Text(small)}, max_frames=8, max_tokens=900)
    assert [A, B] == [piece.path for piece in both.pieces]
    assert 890 <= sum(piece.cost for piece in both.pieces) <= 900


def test_no_piece_is_a_whole_file_just_because_there_is_room() -> None:
    data = numbered(4_000)
    selection = select([hit(A, whole(data))], {A: Text(data)}, max_frames=8, max_tokens=2**32 - 1)
    assert [1_000] == [piece.cost for piece in selection.pieces]


@requirement("truncated")
@fault(108)
def test_several_files_come_before_many_frames_of_one() -> None:
    data, text = numbered(100), Text(numbered(100))
    other = [b"def retry(): 1\n" * 12, b"def retry(): 2\n" * 12]
    methods = [hit(A, lines(text, 20 * n + 1, 20 * n + 15), 0.9 - n / 100, name=f"C.m{n}") for n in range(5)]
    hits = [*methods, hit(B, whole(other[0]), 0.3), hit(C, whole(other[0]), 0.3), hit(D, whole(other[1]), 0.3)]
    texts = {A: Text(data), B: Text(other[0]), C: Text(other[0]), D: Text(other[1])}
    selection = select(hits, texts, max_frames=8, max_tokens=400)
    assert [A, B, D] == sorted({piece.path for piece in selection.pieces})
    assert 3 <= len(selection.pieces)
    assert selection.truncated


@requirement("G1", "G2", "U3", "no-merge")
@fault(108)
def test_identical_content_is_one_frame_that_names_the_other_paths() -> None:
    data = b"def retry():\n    return 1\n"
    hits = [hit(path, whole(data)) for path in (C, A, B)]
    selection = select(hits, {path: Text(data) for path in (A, B, C)}, max_frames=8, max_tokens=800)
    assert [A] == [piece.path for piece in selection.pieces]
    assert (B, C) == selection.pieces[0].same
    assert not selection.truncated
    frame = build(selection.pieces[0], Text(data), Origin("/r"))
    assert (
        Relation("git:same-content", "file:///r/b.py", "the same content in b.py"),
        Relation("git:same-content", "file:///r/c.py", "the same content in c.py"),
    ) == frame.relations


def test_a_function_that_two_files_share_is_one_frame() -> None:
    one, two = b"import a\n\ndef f():\n    pass\n", b"import b\n\ndef f():\n    pass\n"
    hits = [hit(A, Span(10, 28), name="f"), hit(B, Span(10, 28), name="f")]
    selection = select(hits, {A: Text(one), B: Text(two)}, max_frames=8, max_tokens=800)
    assert [(A, (B,))] == [(piece.path, piece.same) for piece in selection.pieces]


def test_pieces_that_touch_become_one_frame() -> None:
    text = Text(numbered(20))
    hits = [hit(A, lines(text, 1, 10), 0.5), hit(A, lines(text, 11, 20), 0.6)]
    selection = select(hits, {A: text}, max_frames=8, max_tokens=4_000)
    assert [(A, 1, 20)] == spans(selection)
    assert 0.6 == selection.pieces[0].hit.score
    named = [hit(A, lines(text, 1, 10), 0.5, name="f"), hit(A, lines(text, 11, 20), 0.6, name="g")]
    assert 2 == len(select(named, {A: text}, max_frames=8, max_tokens=4_000).pieces)


@fault(87)
def test_a_line_too_long_for_a_frame_ends_the_block() -> None:
    data = b"one()\n" * 3 + b"two()\n" * 3 + b"x" * 10_000 + b"\n" + b"three()\n"
    text = Text(data)
    selection = select([hit(A, whole(data), focus=lines(text, 5, 5))], {A: text}, max_frames=8, max_tokens=4_000)
    assert ["one()\n" * 3 + "two()\n" * 3] == [piece.content for piece in selection.pieces]


def test_a_focus_with_a_line_too_long_keeps_its_other_lines() -> None:
    data = b"x" * 10_000 + b"\n" + b"one()\ntwo()\n"
    selection = select([hit(A, whole(data), focus=whole(data))], {A: Text(data)}, max_frames=8, max_tokens=4_000)
    assert ["one()\ntwo()\n"] == [piece.content for piece in selection.pieces]


def test_blank_lines_frame_nothing() -> None:
    data = b"\n\n  one()\n\ntwo()\n\n\n"
    selection = select([hit(A, whole(data))], {A: Text(data)}, max_frames=8, max_tokens=4_000)
    assert ["  one()\n\ntwo()\n"] == [piece.content for piece in selection.pieces]
    for empty in (b"\n \n\t\n", b"\xef\xbb\xbf\n", "\u2003\n".encode()):
        assert Selection() == select([hit(A, whole(empty))], {A: Text(empty)}, max_frames=8, max_tokens=1)


def test_a_focus_on_a_blank_line_is_not_served_alone() -> None:
    data = b"x" * 60 + b"\n\n"
    one = hit(A, whole(data), name="f", focus=Span(61, 62))
    with pytest.raises(BudgetUnsatisfiable):
        select([one], {A: Text(data)}, max_frames=1, max_tokens=1)


@requirement("zero-budget")
@fault(111)
def test_zero_budgets_get_zero_frames() -> None:
    data = b"def f(): pass\n"
    for max_frames, max_tokens in ((0, 100), (100, 0), (0, 0)):
        selection = select([hit(A, whole(data))], {A: Text(data)}, max_frames=max_frames, max_tokens=max_tokens)
        assert Selection(dropped=1) == selection
        assert selection.truncated
    assert not select([], {}, max_frames=0, max_tokens=0).truncated


@requirement("budget_unsatisfiable")
@fault(111)
def test_a_budget_that_no_line_fits_is_unsatisfiable() -> None:
    data = b"def function(argument): pass\n"
    with pytest.raises(BudgetUnsatisfiable):
        select([hit(A, whole(data))], {A: Text(data)}, max_frames=8, max_tokens=3)
    assert Selection() == select([], {}, max_frames=8, max_tokens=3)


def test_any_line_is_better_than_none() -> None:
    data = b"def function(argument): pass\n" * 3 + b"x = 1\n"
    selection = select([hit(A, whole(data))], {A: Text(data)}, max_frames=8, max_tokens=3)
    assert ["x = 1\n"] == [piece.content for piece in selection.pieces]


def test_a_hit_without_its_text_costs_that_hit() -> None:
    data = b"def f(): pass\n"
    selection = select([hit(A, whole(data)), hit(B, whole(data))], {B: Text(data)}, max_frames=8, max_tokens=100)
    assert [B] == [piece.path for piece in selection.pieces]


def test_a_transcoded_file_gets_one_frame() -> None:
    text = Text("\ufefffirst()\nsecond()\nthird()\n".encode("utf-16-le"))
    hits = [hit(A, lines(text, 1, 1), name="first"), hit(A, lines(text, 3, 3), name="third")]
    assert 1 == len(select(hits, {A: text}, max_frames=8, max_tokens=100).pieces)  # two would share a file link


# --- frames ----------------------------------------------------------------------------------------------------


def piece(text: Text, span: Span, path: Path = A, **more: object) -> Piece:
    [only] = select([hit(path, span, **more)], {path: text}, max_frames=1, max_tokens=1_000).pieces  # type: ignore[arg-type]  # as `hit`
    return only


@requirement("F3", "F5", "F17", "digested-bytes")
def test_a_frame_of_the_working_tree_cites_the_file_on_disk() -> None:
    text = Text(b"import os\n\ndef retry():\n    pass\n")
    one = piece(text, Span(11, 33), Path(b"src/n t.py"), name="retry", ordinal=1)
    frame = build(one, text, Origin("/home/u/my repo"), window=(None, None))
    uri = "file:///home/u/my%20repo/src/n%20t.py"
    assert "snippet:src/n%20t.py#retry~1" == frame.id
    assert ("def retry():\n    pass\n", "exact", 6) == (frame.content, frame.content_fidelity, frame.token_cost)
    assert digest(b"def retry():\n    pass\n") == frame.content_digest
    assert uri == frame.uri
    assert (Provenance("file", uri, "L3-4", frame.content_digest),) == frame.provenance
    assert "src/n t.py L3-4 (retry)" == frame.citation_label
    assert "retry in src/n t.py" == frame.title
    assert (None, None, ()) == (frame.valid_from, frame.valid_to, frame.relations)


@requirement("provenance-order", "F17")
def test_a_committed_file_is_cited_as_the_git_object_too() -> None:
    text = Text(b"a\nb\nc\n")
    frame = build(piece(text, Span(2, 4)), text, Origin("/r", head=COMMIT), blob=BLOB, window=(0, None))
    swhid = f"swh:1:cnt:{'b1' * 20};anchor=swh:1:rev:{'c0' * 20};path=/a.py;lines=2"
    assert (
        Provenance("file", "file:///r/a.py", "L2", digest(b"b\n")),
        Provenance("git", swhid, "L2", digest(b"b\n")),
    ) == frame.provenance
    assert "1970-01-01T00:00:00Z" == frame.valid_from
    assert "snippet:a.py:L2" == frame.id


@requirement("F4", "U3")
def test_an_as_of_frame_has_no_file_link() -> None:
    text = Text(b"a\nb\nc\n")
    one = piece(text, Span(0, 4), Path(b"old+name.py"))
    frame = build(one, text, Origin("/r", COMMIT), blob=BLOB, window=(5, 9), current=Path(b"new.py"))
    swhid = f"swh:1:cnt:{'b1' * 20};anchor=swh:1:rev:{'c0' * 20};path=/old%2Bname.py;lines=1-2"
    assert f"snippet:old%2Bname.py:L1-2@{'c0' * 20}" == frame.id
    assert swhid == frame.uri
    assert (Provenance("git", swhid, "L1-2", digest(b"a\nb\n")),) == frame.provenance
    assert (Relation("git:current-path", "file:///r/new.py", "new.py today"),) == frame.relations
    assert ("1970-01-01T00:00:05Z", "1970-01-01T00:00:09Z") == (frame.valid_from, frame.valid_to)
    copied = build(one, text, Origin("/r", COMMIT), blob=BLOB, same=(Path(b"moved.py"),))
    assert (Relation("git:same-content", "file:///r/moved.py", "the same content in moved.py"),) == copied.relations
    bare = build(one, text, Origin(None, COMMIT), blob=BLOB, current=Path(b"new.py"))
    assert () == bare.relations


@requirement("digested-bytes", "P2")
def test_a_transcoded_file_is_cited_whole() -> None:
    text = Text("\ufeffclass A\n{\n}\n".encode("utf-16-le"))
    frame = build(piece(text, Span(8, 12)), text, Origin("/r", head=COMMIT), blob=BLOB)
    assert ("{\n}\n", "normalized") == (frame.content, frame.content_fidelity)
    assert digest(b"{\n}\n") == frame.content_digest
    assert [None, None] == [link.range for link in frame.provenance]
    assert {digest(text.raw)} == {link.digest for link in frame.provenance}
    assert (frame.provenance[1].uri or "").endswith(";path=/a.py")


@requirement("digested-bytes", "D1", "P2")
@fault(82)
def test_latin1_content_keeps_the_link_to_the_bytes() -> None:
    text = Text(b"x\n# fa\xe7ade\n")
    frame = build(piece(text, Span(2, 11)), text, Origin("/r"))
    assert ("# façade\n", "normalized", 3) == (frame.content, frame.content_fidelity, frame.token_cost)
    assert digest("# façade\n".encode()) == frame.content_digest
    assert ("L2", digest(b"# fa\xe7ade\n")) == (frame.provenance[0].range, frame.provenance[0].digest)


@requirement("F2", "F3")
@pytest.mark.parametrize(
    "path", [b"b\xe5.py", b"a\nb.py", b"\x1b[31m.py", "\u202egpj.py".encode(), b" ", b"\xef\xbb\xbf"]
)
@fault(96)
def test_labels_are_one_line_of_real_characters(path: bytes) -> None:
    text = Text(b"def f(): pass\n")
    for name in (None, "f\n<frame>", "\ud83d"):
        frame = build(piece(text, whole(text.data), Path(path), name=name), text, Origin("/r"))
        for shown in (frame.title, frame.citation_label, frame.id, frame.uri or ""):
            assert shown.strip()
            assert shown.isprintable()
            shown.encode("utf-8")


def test_labels_end_somewhere() -> None:
    assert 200 == len(printable("x" * 100_000))


def test_a_derived_frame_is_a_summary() -> None:
    link = Provenance("file", "file:///r/a.py", digest=digest(b"x"))
    frame = derived(
        FrameName("graph", A), "a.py defines f.\n", title="a.py", label="a.py (outline)", score=0.5, links=[link]
    )
    assert ("graph:a.py", "graph", "summarized", 4) == (frame.id, frame.kind, frame.content_fidelity, frame.token_cost)
    assert digest(b"a.py defines f.\n") == frame.content_digest
    assert (link,) == frame.provenance


@requirement("spec-P4")
def test_model_tokens_are_on_the_frame_only_when_counted() -> None:
    text = Text(b"def f(): pass\n")
    hits = [hit(A, whole(text.data))]
    [counted] = select(hits, {A: text}, max_frames=1, max_tokens=99, counter=lambda *_: 5).pieces
    [uncounted] = select(hits, {A: text}, max_frames=1, max_tokens=99, counter=lambda *_: None).pieces
    frame = build(counted, text, Origin("/r"), tokenizer="openai:o200k_base")
    assert (5, "openai:o200k_base") == (frame.canonical_token_cost, frame.tokenizer_ref)
    frame = build(uncounted, text, Origin("/r"), tokenizer="openai:o200k_base")
    assert (None, None) == (frame.canonical_token_cost, frame.tokenizer_ref)


# --- verdicts --------------------------------------------------------------------------------------------------


class Files:
    """A repository of a few texts, as `verdict` sees it."""

    def __init__(self, data: bytes, outline: Outline | None = None, missing: Missing | None = None) -> None:
        self.file, self.parsed, self.missing = Text(data), outline, missing

    def text(self, path: Path, commit: CommitId | None) -> Text | Missing:
        return self.missing or (self.file if path == A else "gone")

    def outline(self, path: Path, commit: CommitId | None) -> Outline | None:
        return self.parsed

    def derived(self, name: FrameName, held: str) -> Digest | Missing:
        return self.missing or digest(b"derived")


def judged(frame_id: str, held: str, files: Files) -> tuple[str, str | None]:
    frame = FrameId("p", frame_id, held)
    found = verdict(frame, "p", files)
    assert frame == found.frame
    return found.status, found.replacement_digest


def definition(name: str, start: int, end: int, head: int) -> Definition:
    return Definition(name, name, "function", Span(start, end), Span(start, head), start)


TWINS = b"def f():\n    one\ndef f():\n    two\n"
OUTLINE = Outline("python", (definition("f", 0, 17, 9), definition("f", 17, 34, 26)))
ONE, TWO = digest(TWINS[:17]), digest(TWINS[17:])


@requirement("verify-valid", "verify-stale", "verify-gone")
def test_a_named_frame_is_valid_while_any_definition_of_that_name_has_its_digest() -> None:
    files = Files(TWINS, OUTLINE)
    assert ("valid", None) == judged("snippet:a.py#f", ONE, files)
    assert ("valid", None) == judged("snippet:a.py#f", TWO, files)  # twins change places
    assert ("valid", None) == judged("symbol:a.py#f~1", digest(b"def f():\n"), files)
    assert ("stale", ONE) == judged("snippet:a.py#f", digest(b"three"), files)
    assert ("stale", TWO) == judged("snippet:a.py#f~1", ONE + "-mutated", files)
    assert ("stale", None) == judged("snippet:a.py#f~2", digest(b"three"), files)
    assert ("gone", None) == judged("snippet:a.py#g", ONE, files)
    assert ("gone", None) == judged("snippet:b.py#f", ONE, files)


def test_a_name_that_could_not_be_looked_for_is_unknown() -> None:
    assert ("unknown", None) == judged("snippet:a.py#f", ONE, Files(TWINS, None))
    assert ("unknown", None) == judged("snippet:a.py#f", ONE, Files(TWINS, Outline("python", complete=False)))


@requirement("verify-valid", "verify-stale")
def test_lines_are_valid_wherever_they_moved() -> None:
    held = digest(b"two\nthree\n")
    for data in (
        b"one\ntwo\nthree\nfour\n",
        b"two\nthree\n",
        b"0\n0\n0\n0\n0\ntwo\nthree\n",
        b"two\nthree\n" + b"0\n" * 50,
    ):
        assert ("valid", None) == judged("snippet:a.py:L2-3", held, Files(data)), data
    for data in (b"one\ntwo\n\nthree\n", b"", b"two\n", b"two\nthree"):
        assert ("stale", None) == judged("snippet:a.py:L2-3", held, Files(data)), data
    for wrong in ("", "sha256:", held + "-contextgraph-conformance-mutated", held.upper()):
        assert ("stale", None) == judged("snippet:a.py:L2-3", wrong, Files(b"one\ntwo\nthree\n"))


def test_lines_far_past_the_end_are_stale() -> None:
    assert ("stale", None) == judged("snippet:a.py:L1-999999999999999", ONE, Files(TWINS))
    assert ("valid", None) == judged("snippet:a.py:L999999999998-999999999999", ONE, Files(TWINS))


def test_the_search_for_moved_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = numbered(200)
    held = digest(data[-4_000:])
    assert ("valid", None) == judged("snippet:a.py:L1-100", held, Files(data))
    monkeypatch.setattr("repo_provider.frames._SEARCHED", 40_000)
    assert ("stale", None) == judged("snippet:a.py:L1-100", held, Files(data))


def test_normalized_content_verifies_by_its_own_digest() -> None:
    assert ("valid", None) == judged("snippet:a.py:L1", digest("façade\n".encode()), Files(b"0\nfa\xe7ade\n"))
    files = Files("\ufeffone\ntwo\n".encode("utf-16-le"))
    assert ("valid", None) == judged("snippet:a.py:L2", digest(b"two\n"), files)


def test_derived_frames_are_made_again() -> None:
    for frame_id in ("graph:a.py", f"episode:{'c0' * 20}+0"):
        assert ("valid", None) == judged(frame_id, digest(b"derived"), Files(b""))
        assert ("stale", digest(b"derived")) == judged(frame_id, ONE, Files(b""))
        assert ("gone", None) == judged(frame_id, ONE, Files(b"", missing="gone"))


@requirement("verify-gone", "verify-unknown")
@pytest.mark.parametrize("missing", ["gone", "unknown"])
def test_what_cannot_be_read_has_the_resolvers_word(missing: Missing) -> None:
    files = Files(TWINS, OUTLINE, missing)
    for frame_id in ("snippet:a.py#f", "snippet:a.py:L1-2", f"snippet:a.py#f@{'c0' * 20}"):
        assert (missing, None) == judged(frame_id, ONE, files)


@requirement("V3", "V5", "verify-echo", "verify-unknown")
@pytest.mark.parametrize(
    "frame",
    [
        FrameId("other", "snippet:a.py#f", ONE),  # V5
        FrameId("p", "snippet:a.py#f"),  # D3
        FrameId("p", "snippet:a.py#f", None),
        FrameId("p", "never served", ONE),
    ],
)
def test_what_we_cannot_speak_for_is_unknown_and_echoed_whole(frame: FrameId) -> None:
    assert FrameVerdict(frame, "unknown") == verdict(frame, "p", Files(TWINS, OUTLINE))


@requirement("D3", "F5", "kind", "verify-valid")
@given(questions(), budgets)
def test_every_frame_verifies_as_it_was_served(
    question: tuple[list[Hit], dict[Path, Text], dict[Path, Outline]], budget: tuple[int, int]
) -> None:
    hits, texts, outlines = question
    named = {
        path: Outline(
            "python",
            tuple(
                Definition("f", "f", "function", hit.span, hit.span, hit.span.start)
                for hit in hits
                if hit.path == path and hit.name
            ),
            blocks=outlines[path].blocks,
        )
        for path in texts
    }

    class Now:
        def text(self, path: Path, commit: CommitId | None) -> Text | Missing:
            return texts[path]

        def outline(self, path: Path, commit: CommitId | None) -> Outline | None:
            return named[path]

        def derived(self, name: FrameName, held: str) -> Digest | Missing:
            return "unknown"

    for one in chosen((hits, texts, named), *budget).pieces:
        frame = build(one, texts[one.path], Origin("/r"))
        assert frame.kind in KINDS
        identity = FrameId("p", frame.id, frame.content_digest)
        assert FrameVerdict(identity, "valid") == verdict(identity, "p", Now())
        assert frame.provenance[0].digest == texts[one.path].cited(one.span)[1]  # F5


@requirement("spec-P1", "shape")
def test_a_frame_is_full_and_has_nothing_of_the_other_representations() -> None:
    text = Text(b"def f(): pass\n")
    frame = build(piece(text, whole(text.data)), text, Origin("/r"))
    members = set(msgspec.json.decode(msgspec.json.encode(frame)))
    expected = {"id", "kind", "title", "score", "token_cost", "content", "content_digest", "uri", "content_fidelity"}
    assert expected | {"provenance", "citation_label"} == members
