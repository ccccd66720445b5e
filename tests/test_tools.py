"""What an agent reads: the golden text of each tool in `fixtures/mcp/`, budgets, schemas, states, errors."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from repo_provider.errors import BadRequest, BudgetUnsatisfiable, ProviderError
from repo_provider.protocol import digest, token_cost
from repo_provider.provider import Basis, Provider
from repo_provider.settings import Settings
from repo_provider.tools import LEAST, TOOLS, Answer, Call, Found, Read, Verdicts, cost, error_text, fenced
from tests.repos import Made, make_repo

GOLDEN = Path(__file__).parents[1] / "fixtures" / "mcp"

RETRY = '''"""Trying again."""

ATTEMPTS = 5


def retry_delay(attempt):
    """Seconds to wait before the next attempt."""
    return %s


class Client:
    def send(self, request):
        for attempt in range(ATTEMPTS):
            if self.try_once(request):
                return attempt
            self.sleep(retry_delay(attempt))
'''
README = "# Client\n\n## Retries\n\nThe delay between two attempts doubles each time:\n\n```\nretry_delay(3)\n```\n"
LONG = "".join(f"def handler_{n}(event):\n    return dispatch(event, {n})\n\n\n" for n in range(200))


@pytest.fixture(scope="module")
def made() -> Made:
    made = make_repo()
    made.commit("2026-01-01", {"net.py": RETRY % "1.0", "README.md": README}, message="First client\n")
    made.commit("2026-02-01", {"net.py": None, "src/net.py": RETRY % "1.0"}, message="Sources move\n")
    made.commit("2026-03-01", {"src/net.py": RETRY % "2.0**attempt"}, message="Wait longer each time\n\nBe kind.\n")
    made.commit("2026-04-01", {"src/many.py": LONG, "src/\x1b[31mred.py": "x = 1\n"}, message="Many handlers\n")
    return made


@pytest.fixture(scope="module")
def provider(made: Made) -> Iterator[Provider]:
    provider = Provider(Settings(str(made.path), deadline=None, workers=1))
    yield provider
    provider.close()


def ask(provider: Provider, tool: str, **arguments: Any) -> Answer:
    """The answer of a tool; both its forms keep the budget, the value fits its schema."""
    asked = TOOLS[tool].asked(arguments)
    answer = TOOLS[tool].answer(provider, asked, Call("repo"))
    assert token_cost(answer.text()) <= asked.max_tokens
    assert -(-len(msgspec.json.encode(answer)) // 4) <= asked.max_tokens
    validator(tool).validate(json.loads(msgspec.json.encode(answer)))
    return answer


@cache
def validator(tool: str) -> Draft202012Validator:
    schema = TOOLS[tool].output_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def found(provider: Provider, **arguments: Any) -> Found:
    answer = ask(provider, "search_code", **arguments)
    assert isinstance(answer, Found)
    return answer


# --- golden text -----------------------------------------------------------------------------------------------

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "search_code": ("search_code", {"goal": "how to retry", "query_text": "retry_delay", "max_frames": 1}),
    "search_code_doc": ("search_code", {"goal": "delay between two attempts", "kinds": ["doc"]}),
    "search_code_as_of": ("search_code", {"goal": "retry_delay", "as_of": "2026-01-15", "max_frames": 1}),
    "search_code_more": ("search_code", {"goal": "handler_7", "max_tokens": 200}),
    "search_code_nothing": ("search_code", {"goal": "zebra", "path": "src", "kinds": ["symbol"]}),
    "search_code_no_path": ("search_code", {"goal": "retry_delay", "path": "lib/**"}),
    "search_code_too_early": ("search_code", {"goal": "retry_delay", "as_of": "2025-06-30"}),
    "read_snippet": ("read_snippet", {"frame_id": "src/net.py#retry_delay"}),
    "read_snippet_as_of": ("read_snippet", {"frame_id": "src/net.py#retry_delay", "as_of": "2026-01-15"}),
    "read_snippet_cut": ("read_snippet", {"frame_id": "src/many.py", "max_tokens": 200}),
    "outline": ("outline", {"path": "src/net.py"}),
    "outline_cut": ("outline", {"path": "src/many.py", "max_tokens": 200}),
    "outline_folder": ("outline", {}),
    "history": ("history", {"path": "src/net.py#retry_delay"}),
    "history_file": ("history", {"path": "src/net.py"}),
    "error_path": ("read_snippet", {"frame_id": "lib/net.py"}),
    "error_name": ("read_snippet", {"frame_id": "src/net.py#retry"}),
    "error_time": ("search_code", {"goal": "retry", "as_of": "2026-02-31"}),
    "error_revision": ("outline", {"path": "src", "as_of": "no-such-branch"}),
    "error_arguments": ("search_code", {"goal": "retry", "max_tokens": 10, "depth": 3}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_tool_says_what_is_written_down(name: str, provider: Provider, update: bool) -> None:
    check(name, said(provider, *CALLS[name]), update)


def said(provider: Provider, tool: str, arguments: dict[str, Any]) -> str:
    try:
        return ask(provider, tool, **arguments).text()
    except ProviderError as error:
        return error_text(error)


def check(name: str, text: str, update: bool) -> None:
    path = GOLDEN / f"{name}.md"
    if update:
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == text + "\n"


def test_verdicts_say_what_is_written_down(made: Made, provider: Provider, update: bool) -> None:
    held = [{"frame_id": one.id, "content_digest": one.digest} for one in found(provider, goal="retry_delay").snippets]
    held.append({"frame_id": "snippet:src/net.py#retry_delay", "content_digest": digest(b"something else")})
    held.append({"frame_id": "snippet:gone.py#name", "content_digest": digest(b"something")})
    held.append({"frame_id": "not an id\x1b[2J", "content_digest": "sha256:no"})
    answer = ask(provider, "verify_snippets", identities=held)
    assert isinstance(answer, Verdicts)
    assert ["stale", "gone", "unknown"] == [one.status for one in answer.verdicts[-3:]]
    assert {"valid"} == {one.status for one in answer.verdicts[:-3]}
    assert len(held) - 3 == answer.valid
    check("verify_snippets", answer.text(), update)


def test_there_is_a_golden_text_for_each_tool() -> None:
    assert set(TOOLS) <= {path.stem for path in GOLDEN.glob("*.md")}
    assert {path.stem for path in GOLDEN.glob("*.md")} == {*CALLS, "verify_snippets"}


# --- budgets ---------------------------------------------------------------------------------------------------


def test_a_thousand_random_answers_keep_within_their_tokens(provider: Provider) -> None:
    chance = random.Random(11)
    answers = [said(provider, *some_request(chance)) for _ in range(1_000)]
    failed = [text for text in answers if text.startswith("Error: ")]
    assert 0 < len(failed) < 500
    assert max(map(token_cost, failed)) <= LEAST


GOALS = (
    "retry",
    "handler dispatch event",
    "why does the delay double",
    "client send `retry_delay`",
    "zebra",
    "x" * 900,
)
PLACES = (
    "src/net.py",
    "src/many.py",
    "README.md",
    "src/net.py#Client.send",
    "src/many.py:3-500",
    "src",
    ".",
    "nope.py",
)
WHEN = ("", "2026-01-15", "2026-03-01T00:00:00Z", "2025-01-01", "main", "yesterday")


def some_request(chance: random.Random) -> tuple[str, dict[str, Any]]:
    tool = chance.choice(list(TOOLS))
    arguments: dict[str, Any] = {"max_tokens": chance.choice((200, 210, 250, 333, 500, 1_000, 4_000, 50_000))}
    if tool == "search_code":
        arguments |= {"goal": chance.choice(GOALS), "max_frames": chance.randint(1, 50), "as_of": chance.choice(WHEN)}
        arguments |= {
            "path": chance.choice(("", "src", "*.md", "lib", "a" * 1_000)),
            "anchors": [chance.choice(PLACES)],
        }
        arguments |= {"kinds": chance.sample(("snippet", "symbol", "doc", "episode"), chance.randint(0, 4))}
    elif tool == "verify_snippets":
        one = {"frame_id": chance.choice(("snippet:src/net.py#Client.send", "é" * 3_000)), "content_digest": "sha256:0"}
        arguments |= {"identities": [one] * chance.choice((1, 10, 100))}
    elif tool == "read_snippet":
        arguments |= {"frame_id": chance.choice(PLACES), "as_of": chance.choice(WHEN)}
    elif tool == "outline":
        arguments |= {"path": chance.choice(PLACES), "as_of": chance.choice(WHEN)}
    else:
        arguments |= {"path": chance.choice(PLACES)}
    return tool, arguments


def test_more_tokens_are_used_for_more(provider: Provider) -> None:
    small, large = (found(provider, goal="dispatch event handler", max_tokens=n, max_frames=50) for n in (400, 4_000))
    assert cost(small) <= 400 < cost(large) <= 4_000
    assert small.left_out > large.left_out == 0


def test_a_line_longer_than_the_budget_is_refused_with_what_to_do(made: Made) -> None:
    wide = make_repo([("2026-01-01", {"wide.py": "wide_line = '" + "y " * 600 + "'\n"})])
    provider = Provider(Settings(str(wide.path), deadline=None, workers=1))
    try:
        with pytest.raises(BudgetUnsatisfiable, match="ask with more max_tokens"):
            ask(provider, "read_snippet", frame_id="wide.py", max_tokens=300)
    finally:
        provider.close()


def test_a_budget_no_line_fits_into_is_said_and_not_an_error() -> None:
    class Poor:
        roots = ()

        def basis(self, as_of: None) -> Basis:
            return Basis(None, None, True)

        def query(self, *_: object) -> None:
            raise BudgetUnsatisfiable("no line fits")

    answer = found(cast(Provider, Poor()), goal="retry")
    assert ((), "Not one line of what matches fits: ask with more max_tokens, 100,000 at most.") == (
        answer.snippets,
        answer.note,
    )


# --- content is data -------------------------------------------------------------------------------------------


@given(st.text(alphabet="`~ \n\rab") | st.text())
def test_no_content_closes_its_fence(content: str) -> None:
    fence, rest = fenced(content).split("\n", 1)
    assert re.fullmatch("`{3,}", fence)
    assert fence not in rest.removesuffix(fence)
    assert content == rest.removesuffix(fence)[: len(content)]


def test_only_content_has_control_characters(provider: Provider) -> None:
    answer = ask(provider, "outline", path="src")
    assert "\x1b" not in answer.text()
    read = ask(provider, "read_snippet", frame_id="src/\x1b[31mred.py")
    assert "\x1b" not in read.text()


def test_the_snippet_is_the_exact_bytes_of_its_lines(made: Made, provider: Provider) -> None:
    lines = (made.path / "src" / "net.py").read_text().splitlines(keepends=True)
    answer = ask(provider, "read_snippet", frame_id="src/net.py:6-8")
    assert isinstance(answer, Read)
    assert "".join(lines[5:8]) == answer.snippet.content
    assert digest(answer.snippet.content.encode()) == answer.snippet.digest


# --- one place -------------------------------------------------------------------------------------------------


def test_every_result_can_be_read_again_and_is_valid(provider: Provider) -> None:
    for as_of in ("", "2026-03-15", "2026-01-15"):
        for kinds in ([], ["episode"], ["symbol"], ["graph"]):
            for one in found(provider, goal="retry delay of the client", as_of=as_of, kinds=kinds).snippets:
                again = ask(provider, "read_snippet", frame_id=one.id, max_tokens=8_000)
                assert isinstance(again, Read)
                assert one == again.snippet
                held = [{"frame_id": one.id, "content_digest": one.digest}]
                verdicts = ask(provider, "verify_snippets", identities=held)
                assert isinstance(verdicts, Verdicts)
                assert 1 == verdicts.valid


def test_what_was_cut_goes_on_where_it_stopped(made: Made, provider: Provider) -> None:
    place, parts = "src/many.py", []
    while place:
        answer = ask(provider, "read_snippet", frame_id=place, max_tokens=900)
        assert isinstance(answer, Read)
        parts.append(answer.snippet.content)
        place = answer.rest
    assert len(parts) > 3
    assert LONG == "".join(parts)


def test_a_commit_whose_hunks_do_not_fit_goes_on_too(made: Made, provider: Provider) -> None:
    commit = made.commits[2].hex()
    whole = ask(provider, "read_snippet", frame_id=f"episode:{commit}+0")
    assert isinstance(whole, Read)
    assert "Wait longer each time" in whole.snippet.content
    assert "2.0**attempt" in whole.snippet.content
    room = cost(whole) - 1
    if room >= LEAST:
        cut = ask(provider, "read_snippet", frame_id=f"episode:{commit}+0", max_tokens=room)
        assert isinstance(cut, Read)
        assert (f"episode:{commit}", f"episode:{commit}+0") == (cut.snippet.id, cut.rest)


def test_an_edit_makes_what_was_read_stale(tmp_path: Path) -> None:
    made = make_repo([("2026-01-01", {"a.py": "def one():\n    return 1\n"})], at=tmp_path / "repo")
    provider = Provider(Settings(str(made.path), deadline=None, workers=1))
    try:
        before = ask(provider, "read_snippet", frame_id="a.py#one")
        assert isinstance(before, Read)
        made.write("a.py", "def one():\n    return 2\n")
        held = [{"frame_id": before.snippet.id, "content_digest": before.snippet.digest}]
        verdicts = ask(provider, "verify_snippets", identities=held)
        after = ask(provider, "read_snippet", frame_id=before.snippet.id)
        assert isinstance(verdicts, Verdicts)
        assert isinstance(after, Read)
        assert ("stale", after.snippet.digest) == (verdicts.verdicts[0].status, verdicts.verdicts[0].digest_now)
        assert "not committed" in after.text()
    finally:
        provider.close()


# --- states ----------------------------------------------------------------------------------------------------


def test_every_answer_says_which_state_it_speaks_of(made: Made, provider: Provider) -> None:
    tip, old = made.commits[-1].hex(), made.commits[1].hex()
    now = found(provider, goal="retry").state
    assert ("working tree", tip, "2026-04-01T00:00:00Z") == (now.files, now.commit, now.instant)
    for as_of in ("2026-02-10", "2026-02-01T00:00:00Z", old, old[:9]):
        then = found(provider, goal="retry", as_of=as_of).state
        assert ("commit", old, "2026-02-01T00:00:00Z") == (then.files, then.commit, then.instant)
    none = found(provider, goal="retry", as_of="2020-01-01").state
    assert ("none", "", "2020-01-01T23:59:59Z") == (none.files, none.commit, none.instant)
    with pytest.raises(BadRequest, match="no commit yet"):
        ask(provider, "outline", path=".", as_of="2020-01-01")


def test_a_path_of_today_is_found_under_its_old_name(provider: Provider) -> None:
    answer = ask(provider, "read_snippet", frame_id="src/net.py#retry_delay", as_of="2026-01-15")
    assert isinstance(answer, Read)
    assert ("net.py L6-8 (retry_delay)", "src/net.py") == (answer.snippet.citation.split(" @")[0], answer.snippet.today)


def test_a_repository_without_a_commit_is_answered_from_its_files(tmp_path: Path) -> None:
    made = make_repo(at=tmp_path / "new")
    made.write("a.py", "def only_here():\n    pass\n")
    provider = Provider(Settings(str(made.path), deadline=None, workers=1))
    try:
        answer = found(provider, goal="only_here")
        assert 1 == len(answer.snippets)
        assert answer.text().startswith("repo, working tree without any commit: 1 result")
        with pytest.raises(BadRequest):
            ask(provider, "history", path="a.py")
    finally:
        provider.close()


# --- arguments and schemas -------------------------------------------------------------------------------------


def test_what_models_send_for_what_they_mean_is_understood() -> None:
    asked = TOOLS["search_code"].asked(
        {"goal": "x\ud800", "anchors": "src/a.py", "kinds": '["doc"]', "max_frames": "3", "as_of": None}
    )
    assert ("x?", ("src/a.py",), ("doc",), 3, "") == (
        asked.goal,
        asked.anchors,
        asked.kinds,
        asked.max_frames,
        asked.as_of,
    )
    one = {"frame_id": "snippet:a.py#b", "content_digest": "sha256:0"}
    for identities in (one, [one], json.dumps(one), json.dumps([one])):
        assert 1 == len(TOOLS["verify_snippets"].asked({"identities": identities}).identities)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_is_described_for_a_model_that_never_saw_it(tool: str) -> None:
    offered = TOOLS[tool]
    assert 30 < len(offered.description.split()) < 120
    for repositories in ((), ("one", "two")):
        schema = offered.input_schema(repositories)
        Draft202012Validator.check_schema(schema)
        assert "$ref" not in json.dumps([schema, offered.output_schema()])
        assert (
            ("repository" in schema["properties"]) == ("repository" in schema.get("required", ())) == bool(repositories)
        )
        for name, field in schema["properties"].items():
            assert "type" in field, name
            assert name == "identities" or field["description"], name
    assert {"object"} == {offered.input_schema()["type"], offered.output_schema()["type"]}
