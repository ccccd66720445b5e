"""Level one: what is counted, and that a view counts exactly its own files."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha1

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repo_provider import lexical, words
from repo_provider.lexical import Index, Rules, Segment, View
from repo_provider.model import FIELDS, BlobId, CommitId, Matches, Path
from tests.faults import fault
from tests.spec import requirement

PYTHON = Rules(
    "python",
    rb"\n[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)",
    (b"#",),
    ((b'"""', b'"""'), (b"'''", b"'''")),
)
TEXT = Rules()
C = Rules("c", rb"\n(?:\w[\w \t*]*?\b(\w+)\(|struct (\w+))", (b"//",), ((b"/*", b"*/"),))


def blob(data: bytes) -> BlobId:
    return BlobId(sha1(data).digest())


def item(data: bytes, rules: Rules = TEXT) -> tuple[bytes, bytes, Rules]:
    return lexical.key(blob(data), rules), data, rules


def view(files: dict[str, bytes], index: Index | None = None, rules: Rules = TEXT) -> View:
    index = index or Index()
    items = [item(data, rules) for _, data in sorted(files.items())]
    wanted = set(index.missing([item_key for item_key, _, _ in items]))
    index.add([one for one in items if one[0] in wanted])
    return index.view([(Path(path.encode()), item(data, rules)[0]) for path, data in sorted(files.items())])


def counts(matches: Matches, field: str, term: str) -> dict[str, int]:
    """Path -> times, for one term of a result."""
    at = matches.terms.index(term)
    pairs = zip(matches.rows[field][at].tolist(), matches.counts[field][at].tolist(), strict=True)
    return {matches.paths[row].decode(): int(times) for row, times in pairs}


# --- one text --------------------------------------------------------------------------------------------------


def test_a_text_is_counted_in_three_fields() -> None:
    found = lexical.analyse(b'class RateLimiter:\n    """Slows callers."""\n    limit = 1  # tokens\n', PYTHON)
    assert {b"RateLimiter": 1} == found.names
    assert {b"Slows": 1, b"callers": 1, b"tokens": 1} == found.comments
    assert {
        b"class": 1,
        b"RateLimiter": 1,
        b"Slows": 1,
        b"callers": 1,
        b"limit": 1,
        b"1": 1,
        b"tokens": 1,
    } == found.body


def test_every_group_of_a_definition_line_that_matched_is_a_name() -> None:
    found = lexical.analyse(b"int uv_read(x)\nstruct buffer {\n  call(y)\n", C)
    assert {b"uv_read": 1, b"buffer": 1} == found.names


@pytest.mark.parametrize(
    ("text", "rules", "said"),
    [
        (b"x = '#no' #yes\n", PYTHON, [b"yes"]),
        (b'u = "http://no.example" // yes\n', C, [b"yes"]),
        (b"/* a * b **/ c /* d", C, [b"a", b"b", b"d"]),
        (b"''' one\ntwo ''' three # four\n", PYTHON, [b"one", b"two", b"four"]),
        (b'# a """ b\nc\n', PYTHON, [b"a", b"b"]),
        (b"#", PYTHON, []),
        (b"# plain text has no comments", TEXT, []),
    ],
)
def test_comments_are_found_by_their_marks(text: bytes, rules: Rules, said: list[bytes]) -> None:
    assert Counter(said) == lexical.analyse(text, rules).comments


@fault(78)
def test_a_key_names_bytes_language_and_rules() -> None:
    """The same bytes as x.py and as x.txt are two analyses."""
    one = blob(b"def f(): pass\n")
    assert 3 == len({lexical.key(one, PYTHON), lexical.key(one, TEXT), lexical.key(blob(b""), TEXT)})
    assert lexical.key(one, PYTHON) == lexical.key(one, Rules(*(getattr(PYTHON, f) for f in PYTHON.__struct_fields__)))


# --- views -----------------------------------------------------------------------------------------------------


def test_a_view_says_where_a_term_stands_and_how_often() -> None:
    found = view({"a.txt": b"retry retry later", "b.txt": b"later"}).match(["retri", "later", "retry", "absent"])
    assert ("absent", "later", "retri", "retry") == found.terms
    retry = words.terms(b"retry")[0]
    assert {"a.txt": 2} == counts(found, "body", retry)
    assert {"a.txt": 1, "b.txt": 1} == counts(found, "body", "later")
    assert {} == counts(found, "body", "absent")
    assert [3.0, 1.0] == found.lengths["body"].tolist()


@fault(78)
def test_the_same_content_at_two_paths_is_two_files() -> None:
    """Each path is reported once, with its own path; twins count twice in every statistic."""
    index = Index()
    both = view({"a/x.txt": b"same words", "b/x.txt": b"same words", "c.txt": b"words"}, index)
    assert {"a/x.txt": 1, "b/x.txt": 1, "c.txt": 1} == counts(both.match(["word"]), "body", "word")
    assert [3] == both.document_frequency(["word"]).tolist()
    one = view({"b/x.txt": b"same words", "c.txt": b"words"}, index)
    assert {"b/x.txt": 1} == counts(one.match(["same", "sam"]), "body", words.terms(b"same")[0])


def test_words_of_a_path_are_a_field_of_that_path() -> None:
    found = view({"src/rate_limiter.py": b"", "tests/x.py": b""}).match(["rat", "limiter", "=ratelimiter"])
    assert {"src/rate_limiter.py": 1} == counts(found, "path", "limiter")
    assert {"src/rate_limiter.py": 1} == counts(found, "path", "=ratelimiter")


def test_messages_are_counted_for_every_commit_and_tied_to_the_files_it_touched() -> None:
    index = Index()
    commits = [CommitId(bytes([n]) * 20) for n in range(3)]
    assert commits == index.missing_messages(commits)
    index.add_messages([(commits[0], b"proxy proxy"), (commits[1], b"proxy auth")])
    assert commits[2:] == index.missing_messages(commits)
    paths = [Path(b"a"), Path(b"b"), Path(b"c")]
    said = [(commits[0], paths[:2]), (commits[1], [paths[1], Path(b"gone")]), (commits[2], paths)]
    found = index.view([(path, item(b"")[0]) for path in paths], said).match(["proxy", "auth"])
    proxy = found.terms.index("proxy")
    assert ([0, 1], [2.0, 1.0]) == (
        found.rows["messages"][proxy].tolist(),
        found.counts["messages"][proxy].tolist(),
    )
    assert [2.0, 2.0, 0.0] == found.lengths["messages"].tolist()
    assert [0, 0, 1, 2, 2, 2] == found.touched.commits.tolist()
    assert [0, 1, 1, 0, 1, 2] == found.touched.files.tolist()
    assert [2.0, 2.0, 3.0] == found.touched.spread.tolist()


def test_centrality_counts_mentions_in_other_files_of_names_a_file_defines() -> None:
    files = {
        "a.py": b"class Router: pass\ndef helper_fn(): Router()\n",
        "b.py": b"Router() + Router() + Routers()",
        "c.py": b"from a import Router, helper_fn",
        "d.py": b"router",
    }
    assert [3.0, 0.0, 0.0, 0.0] == view(files, rules=PYTHON).centrality.tolist()


def test_a_name_that_many_files_define_makes_none_of_them_very_central() -> None:
    files = {f"{n}.py": b"def common_name(): pass\n" for n in range(5)} | {"own.py": b"def special(): pass"}
    assert [4 / 5] * 5 + [0.0] == view(files, rules=PYTHON).centrality.tolist()


def test_a_content_that_was_never_added_counts_as_empty() -> None:
    found = Index().view([(Path(b"a.txt"), item(b"word")[0])]).match(["word", "txt"])
    assert {} == counts(found, "body", "word")
    assert {"a.txt": 1} == counts(found, "path", "txt")


def test_an_empty_snapshot_has_no_matches() -> None:
    found = Index().view([]).match(["word"])
    assert () == found.paths
    assert [()] == [tuple(rows.tolist()) for rows in found.rows["body"]]
    assert [] == found.centrality.tolist()


def test_no_terms_is_a_question_too() -> None:
    assert () == view({"a": b"x"}).match([]).terms


# --- exactness -------------------------------------------------------------------------------------------------

_WORD = st.sampled_from([b"alpha", b"beta_gamma", b"GammaRay", b"def", b"f", b"#", b"\n", b"7", "é重跑".encode(), b"x"])
_TEXT = st.lists(_WORD, max_size=12).map(b" ".join)
_FILES = st.dictionaries(st.sampled_from(["a", "b/c", "d_e", "x/y/z", "beta.py"]), _TEXT, max_size=5)
_TERMS = sorted(
    {term for word in (b"alpha", b"beta_gamma", b"GammaRay", b"7", "é重跑".encode()) for term in words.terms(word)}
)


def same(one: Matches, other: Matches) -> bool:
    return plain(one) == plain(other)


def plain(matches: Matches) -> object:
    """Everything in a result, as values that compare."""
    return (
        matches.paths,
        matches.terms,
        [[rows.tolist() for rows in matches.rows[field]] for field in FIELDS],
        [[times.tolist() for times in matches.counts[field]] for field in FIELDS],
        [matches.lengths[field].tolist() for field in FIELDS],
        matches.centrality.tolist(),
    )


@requirement("P1")
@given(files=_FILES, others=st.lists(_FILES, max_size=3), first=st.booleans())
def test_matches_depend_on_the_snapshot_alone(
    files: dict[str, bytes], others: Sequence[dict[str, bytes]], first: bool
) -> None:
    """P1: not on what else was indexed, nor in which order or how many segments."""
    crowded = Index()
    if first:
        view(files, crowded, PYTHON)
    for other in others:
        view(other, crowded, PYTHON)
    assert same(view(files, rules=PYTHON).match(_TERMS), view(files, crowded, PYTHON).match(_TERMS))


@given(files=_FILES)
def test_counts_are_those_of_counting_by_hand(files: dict[str, bytes]) -> None:
    found = view(files).match(_TERMS)
    by_hand = {path: words.count(data) for path, data in files.items()}
    for term in _TERMS:
        assert {p: n for p, c in by_hand.items() if (n := c[term])} == counts(found, "body", term)
    lengths = [sum(n for t, n in by_hand[path].items() if not t.startswith("=")) for path in sorted(files)]
    assert lengths == found.lengths["body"].tolist()


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1))
def test_every_word_of_a_line_finds_it_again(line: str) -> None:
    """Faults 52, 53, 104: any token between spaces, asked with the same split, is found if it has a letter or digit."""
    found = view({"f": line.encode()})
    for token in line.encode().split():
        terms = [term for word in words.identifiers(token) for term in words.terms(word)]
        matches = found.match(terms)
        assert all(len(rows) for rows in matches.rows["body"])


# --- segments --------------------------------------------------------------------------------------------------


def segment(*texts: bytes) -> Segment:
    return lexical.segment_of([item(text, PYTHON) for text in texts])


def test_a_segment_survives_its_bytes() -> None:
    one = segment(b"alpha beta_gamma", b"def alpha(): pass # said", b"")
    data = one.to_bytes()
    again = Segment.from_buffer(data)
    assert again is not None
    assert data == again.to_bytes()


@given(st.lists(st.lists(_TEXT, max_size=3, unique=True), min_size=1, max_size=4))
def test_merged_segments_are_the_segment_of_all_rows(groups: list[list[bytes]]) -> None:
    together = segment(*(text for texts in groups for text in texts))
    merged = lexical.merge([segment(*texts) for texts in groups])
    assert together.to_bytes() == merged.to_bytes()


def test_merging_can_leave_rows_out() -> None:
    keep = [np.array([True, False]), np.array([False, True])]
    merged = lexical.merge([segment(b"a1", b"b2"), segment(b"c3", b"d4")], keep)
    assert segment(b"a1", b"d4").to_bytes() == merged.to_bytes()


@given(st.data())
def test_any_damage_to_a_segment_is_noticed(data: st.DataObject) -> None:
    good = segment(b"alpha beta", b"gamma").to_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = good[:at] + bytes([good[at] ^ 1 << data.draw(st.integers(0, 7))]) + good[at + 1 :]
    assert Segment.from_buffer(flipped) is None
    assert Segment.from_buffer(good[:at]) is None


def test_a_worker_counts_as_this_process_does() -> None:
    items = [item(b"def alpha(): pass", PYTHON), item(b"beta # x", TEXT)]
    index = Index()
    assert index.add_segment(lexical.analyse_task(lexical.analyse_payload(items)))
    assert [] == index.missing([row_key for row_key, _, _ in items])
    assert not index.add_segment(b"damaged")


# --- what is kept ----------------------------------------------------------------------------------------------


class Shelf:
    """A segment store in memory, with a reader's refusal to write if wanted."""

    def __init__(self) -> None:
        self.data: dict[str, tuple[str, bytes]] = {}
        self.writable = True
        self._generation = 1

    def generation(self) -> int:
        return self._generation

    def segment_names(self, corpus: str) -> list[str]:
        return sorted(name for name, (of, _) in self.data.items() if of == corpus)

    def segment(self, name: str) -> memoryview | None:
        return memoryview(self.data[name][1]) if name in self.data else None

    def replace_segments(self, corpus: str, removed: Sequence[str], data: bytes) -> str | None:
        if not self.writable:
            return None
        for name in removed:
            del self.data[name]
        name = sha1(data).hexdigest()
        self.data[name] = (corpus, data)
        self._generation += 1
        return name

    def discard_segment(self, name: str) -> None:
        del self.data[name]
        self._generation += 1


FILES = {"a.py": b"def alpha(): beta_gamma()", "b.py": b"class GammaRay: alpha # 7", "c/beta.py": b""}


@requirement("P1")
def test_a_warm_store_gives_the_same_matches() -> None:
    """P1: cold, warm and no store."""
    shelf, messages = Shelf(), [(CommitId(b"c" * 20), [Path(b"a.py"), Path(b"b.py")])]
    plain_index, cold, answers = Index(), Index(shelf), []
    for index in (plain_index, cold, None):
        warm = index or Index(shelf)
        assert (index is None) == (not warm.missing_messages([messages[0][0]]))
        if index is not None:
            index.add_messages([(messages[0][0], b"alpha alpha")])
        answers.append(index_view(FILES, warm, messages).match(_TERMS))
        warm.flush()
    assert plain(answers[0]) == plain(answers[1]) == plain(answers[2])
    assert 3 == len(shelf.data)


def index_view(
    files: dict[str, bytes],
    index: Index,
    messages: Sequence[tuple[CommitId, Sequence[Path]]] = (),
    rules: Rules = PYTHON,
) -> View:
    view(files, index, rules)
    return index.view([(Path(p.encode()), item(d, rules)[0]) for p, d in sorted(files.items())], messages)


def test_a_warm_store_has_nothing_missing() -> None:
    shelf, first = Shelf(), Index()
    first = Index(shelf)
    view(FILES, first, PYTHON)
    first.flush()
    assert [] == Index(shelf).missing([item(data, PYTHON)[0] for data in FILES.values()])


def test_many_edits_leave_few_segments_in_memory_and_in_the_store() -> None:
    """Fault 61: the versions between two flushes are not kept."""
    shelf, index = Shelf(), Index()
    index = Index(shelf)
    for edit in range(200):
        current = view(FILES | {"a.py": b"edit %d of 200" % edit}, index, PYTHON)
        if edit % 20 == 0:
            index.flush()
    index.flush()
    assert len(index._contents.segments) < 6
    assert len(shelf.data) < 10
    assert len(index._contents) < 3 + 12
    assert plain(current.match(["edit", "199"])) == plain(
        view(FILES | {"a.py": b"edit 199 of 200"}, rules=PYTHON).match(["edit", "199"])
    )


def test_a_flush_keeps_what_no_view_has_held_yet() -> None:
    index = Index()
    index.add([item(b"early")])
    index.flush()
    assert [] == index.missing([item(b"early")[0]])


def test_a_view_outlives_the_segments_it_was_built_on() -> None:
    index = Index(Shelf())
    before = index_view(FILES, index)
    answer = plain(before.match(_TERMS))
    index_view(FILES | {"d.py": b"alpha"}, index)
    index.flush()
    index.prune(set(), set(), set())
    assert answer == plain(before.match(_TERMS))
    assert answer == plain(index_view(FILES, index).match(_TERMS))


def test_a_second_process_takes_in_what_the_first_has_stored() -> None:
    """Fault 114."""
    shelf = Shelf()
    first, second = Index(shelf), Index(shelf)
    view(FILES, first, PYTHON)
    first.flush()
    assert [] == second.missing([item(data, PYTHON)[0] for data in FILES.values()])
    answer = plain(index_view(FILES, second).match(_TERMS))
    first.prune(set(), set(), set())
    assert 1 == len(second.missing([item(b"unseen")[0]]))
    assert answer == plain(index_view(FILES, second).match(_TERMS))


def test_a_reader_keeps_its_own_work_in_memory_until_it_may_write() -> None:
    """Fault 114."""
    shelf = Shelf()
    first = Index(shelf)
    view({"a.py": b"stored by the owner"}, first)
    first.flush()
    shelf.writable = False
    reader = Index(shelf)
    before = dict(shelf.data)
    for n in range(3):
        view({"a.py": b"stored by the owner", "b.py": b"mine %d" % n}, reader)
        reader.flush()
    assert before == shelf.data
    shelf.writable = True
    last = view({"a.py": b"stored by the owner", "b.py": b"mine 2"}, reader)
    reader.flush()
    reader.flush()
    assert [] == Index(shelf).missing(last.keys)


def test_a_damaged_segment_is_dropped_and_counted_again() -> None:
    shelf = Shelf()
    first = Index(shelf)
    answer = plain(index_view(FILES, first).match(_TERMS))
    first.flush()
    (name,) = shelf.segment_names("contents")
    shelf.data[name] = ("contents", shelf.data[name][1][:-3])
    again = Index(shelf)
    assert [] == shelf.segment_names("contents")
    assert answer == plain(index_view(FILES, again).match(_TERMS))


def test_pruning_keeps_what_it_is_told_to() -> None:
    shelf = Shelf()
    index = Index(shelf)
    commits = [CommitId(b"c" * 20), CommitId(b"d" * 20)]
    index.add_messages([(commit, b"words") for commit in commits])
    keys = list(view(FILES, index, PYTHON).keys)
    index.flush()
    index.prune({keys[0]}, {Path(b"a.py")}, {commits[1]})
    warm = Index(shelf)
    assert keys[1:] == warm.missing(keys)
    assert commits[:1] == warm.missing_messages(commits)


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns so often that what they can do to each other happens."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("restless")
def test_threads_may_count_ask_and_flush_at_once() -> None:
    """An index is shared by every query of a server and by the work behind them."""
    shelf = Shelf()
    index = Index(shelf)
    texts = {f"{n}.py": b"def f_%d(): alpha_%d(beta_gamma)" % (n, n % 7) for n in range(60)}
    alone = plain(view(texts, rules=PYTHON).match(_TERMS))
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in range(12):
                some = {path: texts[path] for path in list(texts)[: 5 + (seed * 7 + step * 11) % 55]}
                view(some | {"own.py": b"own_%d_%d" % (seed, step)}, index, PYTHON)
                if (seed + step) % 3 == 0:
                    index.flush()
            assert alone == plain(view(texts, index, PYTHON).match(_TERMS))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == failures
    index.flush()
    assert alone == plain(view(texts, Index(shelf), PYTHON).match(_TERMS))


def test_messages_can_be_asked_without_a_view() -> None:
    index = Index()
    commits = [CommitId(bytes([n]) * 20) for n in range(3)]
    index.add_messages([(commits[0], b"proxy proxy auth"), (commits[2], b"auth")])
    terms, table = index.said(commits, ["proxy", "auth", "proxy"])
    assert ("auth", "proxy") == terms
    assert [[1.0, 0.0, 1.0], [2.0, 0.0, 0.0]] == table.tolist()
