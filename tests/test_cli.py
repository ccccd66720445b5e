"""The command line: what is typed, what is printed, and the exit code."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from repo_provider import tokens
from repo_provider.attest import fingerprint, make_key
from repo_provider.cli import commands, run
from repo_provider.settings import Surroundings
from tests.connect import HANDSHAKE, encode
from tests.connect import query as asked
from tests.faults import fault
from tests.repos import Made, make_repo

OLD = "def fetch_page(url):\n    return open_socket(url)\n"
NEW = "def fetch_page(url):\n    return open_socket(url, retries=3)\n"


@pytest.fixture
def made() -> Made:
    return make_repo(
        [
            ("2026-01-10", {"src/net.py": OLD, "notes.md": "# Network\n\nHow a page is fetched.\n"}),
            ("2026-06-10", {"src/net.py": NEW}),
        ]
    )


class Told(NamedTuple):
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


Ask = Callable[..., Told]


@pytest.fixture
def ask(made: Made, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Ask:
    """Run a command in this process, in the repository's root, with a home of its own."""

    def ask(*arguments: str, directory: Path | None = None) -> Told:
        code = run(arguments, Surroundings(str(tmp_path), str(directory or made.path), 2))
        out, err = capsysbinary.readouterr()
        return Told(code, out.decode(), err.decode())

    return ask


WAIT = ("--deadline", "0")


# --- query -----------------------------------------------------------------------------------------------------


def test_a_question_is_answered_with_citation_code_and_budget(ask: Ask) -> None:
    told = ask("query", *WAIT, "fetch", "page", "retries")
    assert (0, "") == (told.code, told.err)
    first, second, third, *_, last = told.out.splitlines()
    assert first.startswith("1. src/net.py L1-2 (fetch_page)  snippet  score 0.")
    assert first.endswith("  since 2026-06-10T00:00:00Z")
    assert ["  1 │ def fetch_page(url):", "  2 │     return open_socket(url, retries=3)"] == [second, third]
    assert last.partition(" of ")[2].startswith("8, ")
    assert "of 4,000 tokens" in last
    assert "\x1b" not in told.out


def test_json_is_one_envelope_and_nothing_else(ask: Ask) -> None:
    told = ask("query", *WAIT, "--json", "--max-frames", "1", "fetch_page")
    (line,) = told.out.splitlines()
    envelope = json.loads(line)
    assert ("frames", 1) == (envelope["type"], len(envelope["result"]["frames"]))
    assert told.out == ask("query", *WAIT, "--json", "--max-frames", "1", "--no-store", "fetch_page").out


@pytest.mark.parametrize(
    ("when", "instant"),
    [
        ("2026-01-10T12:00:00Z", "2026-01-10T12:00:00Z"),
        ("2026-01-10", "2026-01-10T23:59:59Z"),
        ("first", "2026-01-10T00:00:00Z"),
        ("refs/tags/first", "2026-01-10T00:00:00Z"),
    ],
)
@fault(27)
def test_a_past_instant_is_typed_in_several_ways_and_the_one_meant_is_printed(
    ask: Ask, made: Made, when: str, instant: str
) -> None:
    """The resolved instant is told."""
    made.set_ref("refs/tags/first", made.commits[0])
    told = ask("query", *WAIT, "--as-of", when, "fetch_page")
    assert f"repo-provider: as of {instant}\n" == told.err
    assert "return open_socket(url)\n" in told.out
    assert "  2026-01-10T00:00:00Z until 2026-06-10T00:00:00Z\n" in told.out


def test_a_commit_is_typed_by_its_id_or_at_least_seven_digits_of_it(ask: Ask, made: Made) -> None:
    for typed in (made.commits[0].hex(), made.commits[0].hex()[:7]):
        assert "repo-provider: as of 2026-01-10T00:00:00Z\n" == ask("query", *WAIT, "--as-of", typed, "fetch_page").err


NO_COMMIT = ["nope", "e", "HEAD@{yesterday}", ":/in", "--help", "main ", "refs/heads/none", "HEAD^{tree}", "0" * 40]


@pytest.mark.parametrize("typed", [*NO_COMMIT, "2026-13-01"])
@fault(69)
def test_what_is_neither_a_time_nor_a_commit_is_refused_in_one_line(ask: Ask, typed: str) -> None:
    """Only ids, branches, tags and full refs are revisions."""
    told = ask("query", "--as-of", typed, "fetch_page")
    assert (2, "") == (told.code, told.out)
    assert 1 == len(told.err.splitlines())


def test_a_commit_off_the_served_line_is_refused(ask: Ask, made: Made) -> None:
    side = made.commit("2026-03-01", {"side.py": "x = 1\n"}, ref="refs/heads/side", parents=made.commits[:1])
    told = ask("query", "--as-of", side.hex(), "fetch_page")
    assert 2 == told.code
    assert "first-parent line" in told.err


def test_kinds_and_paths_narrow_the_answer(ask: Ask) -> None:
    told = ask("query", *WAIT, "--kind", "snippet", "--path", "src/**", "page")
    assert "src/net.py" in told.out
    assert "notes.md" not in told.out
    assert "notes.md" in ask("query", *WAIT, "--path", "!src", "page").out


def test_a_path_that_matches_nothing_is_named(ask: Ask) -> None:
    """Fault 110: never silently zero."""
    told = ask("query", *WAIT, "--path", "SRC", "page")
    assert 0 == told.code
    assert "repo-provider: no path matches 'SRC'; names are case-sensitive, and there is 'src/net.py'\n" == told.err


def test_a_malformed_path_is_refused(ask: Ask) -> None:
    told = ask("query", "--path", "src/[", "page")
    assert (2, "repo-provider: --path 'src/[' cannot be read: a `[` has no `]`; `[[]` is a bracket itself\n") == (
        told.code,
        told.err,
    )


def test_an_anchor_is_a_path_from_here(ask: Ask, made: Made) -> None:
    told = ask("query", *WAIT, "--anchor", "net.py:1-2", "fetch_page", directory=made.path / "src")
    assert (0, "") == (told.code, told.err)
    assert "src/net.py L1-2" in told.out


def test_a_subdirectory_serves_the_whole_repository(ask: Ask, made: Made) -> None:
    assert "notes.md" in ask("query", *WAIT, "network", directory=made.path / "src").out


# --- verify ----------------------------------------------------------------------------------------------------


def test_a_saved_answer_is_verified_and_the_exit_code_says_how_it_went(ask: Ask, made: Made, tmp_path: Path) -> None:
    saved = tmp_path / "held.ndjson"
    saved.write_text(ask("query", *WAIT, "--json", "--max-frames", "1", "fetch_page").out)
    told = ask("verify", str(saved))
    assert (0, "valid    snippet:src/net.py#fetch_page\n", "") == (told.code, told.out, told.err)
    made.write("src/net.py", OLD)
    told = ask("verify", str(saved))
    assert (1, "stale    snippet:src/net.py#fetch_page  now sha256:") == (told.code, told.out[:51])
    made.delete("src/net.py")
    assert (1, "gone     snippet:src/net.py#fetch_page\n") == (
        ask("verify", str(saved)).code,
        ask("verify", str(saved)).out,
    )


@pytest.mark.parametrize("held", ["", "\n", "nonsense", "{}", '{"type":"error","code":"x","message":"y"}', "[1]"])
def test_what_is_no_saved_answer_is_an_error_and_never_all_valid(ask: Ask, tmp_path: Path, held: str) -> None:
    (tmp_path / "held").write_text(held)
    told = ask("verify", str(tmp_path / "held"))
    assert (2, "") == (told.code, told.out)
    assert "query --json" in told.err
    assert 1 == len(told.err.splitlines())


def test_a_missing_file_is_an_error(ask: Ask) -> None:
    assert 2 == ask("verify", "/nowhere/held").code


# --- keys and signatures ---------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="no file modes here")
def test_a_key_is_made_shown_and_replaced(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / ".config" / "repo-provider" / "key.json"
    told = ask("key", "new")
    assert (0, "") == (told.code, told.err)
    assert 0o600 == file.stat().st_mode & 0o777
    assert ["key id", "algorithm", "public key", "fingerprint"] == [
        line.split("  ")[0] for line in told.out.splitlines()
    ]
    assert told.out == ask("key", "show").out
    public = told.out.splitlines()[2].split()[-1]
    assert "fingerprint  " + fingerprint(public) in told.out
    replaced = ask("key", "rotate").out
    assert public not in replaced.partition("retired")[0]
    assert public in replaced.partition("retired")[2]
    assert 2 == ask("key", "new").code
    assert "`key rotate` replaces its key" in ask("key", "new").err


def test_no_key_is_kept_in_the_repository(ask: Ask, made: Made) -> None:
    for file in ("key.json", "src/key.json", ".git/key.json"):
        told = ask("key", "new", file)
        assert (2, "") == (told.code, told.out)
        assert "keys live elsewhere" in told.err
        assert not (made.path / file).exists()


@pytest.mark.skipif(os.name != "posix", reason="no file modes here")
def test_a_saved_session_is_checked_against_a_key_and_says_which_frame_failed_and_why(
    ask: Ask, made: Made, tmp_path: Path
) -> None:
    public = ask("key", "new").out.splitlines()[2].split()[-1]
    saved = tmp_path / "answer.ndjson"
    with saved.open("wb") as file:
        subprocess.run(
            command("serve", "-C", str(made.path), "--deadline", "0", "--no-store", "--sign"),
            env=environment(tmp_path), input=encode(HANDSHAKE) + b"\n" + encode(asked("fetch_page", max_frames=1)),
            stdout=file, check=True, timeout=60,
        )  # fmt: skip
    check = ("verify", "--attestation", str(saved), "--key", public)
    assert Told(0, "proven  the answer\nproven  snippet:src/net.py#fetch_page\n", "") == ask(*check)
    saved.write_bytes(saved.read_bytes().replace(b"retries=3", b"retries=4"))
    told = ask(*check, directory=tmp_path)  # no repository is needed
    assert (1, "") == (told.code, told.err)
    assert [
        "proven  the answer",
        "broken  snippet:src/net.py#fetch_page  the content does not have the digest the frame states",
    ] == told.out.splitlines()
    other = make_key(bytes(32)).published.public_key
    told = ask("verify", "--attestation", str(saved), "--key", other)
    assert 1 == told.code
    assert "broken  the answer  the signature is not by the trusted key" in told.out
    assert 1 == ask(*check, "--name", "someone-else").code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--attestation", "{held}"], "--attestation FILE and --key HEX go together"),
        (["--key", "0" * 64], "--attestation FILE and --key HEX go together"),
        (["--attestation", "{held}", "--key", "nonsense"], "a public key is 64 lowercase hex digits"),
        (["--attestation", "{held}", "--key", "0" * 64], "there is no frames envelope to check"),
        (["--attestation", "/nowhere/held", "--key", "0" * 64], "No such file"),
    ],
)
def test_signatures_are_checked_with_a_file_and_a_key(
    ask: Ask, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "held").write_text('{"type":"verified"}\n')
    told = ask("verify", *(word.format(held=tmp_path / "held") for word in arguments))
    assert (2, "", 1) == (told.code, told.out, len(told.err.splitlines()))
    assert message in told.err


# --- model tokens ----------------------------------------------------------------------------------------------


def test_the_budget_line_shows_both_counts(ask: Ask) -> None:
    told = ask("query", *WAIT, "--budget-tokenizer", "o200k_base", "fetch_page", "--max-frames", "1")
    assert (0, "") == (told.code, told.err)
    counted = tokens.tokenizer("o200k_base").count(NEW)
    assert f"1 frame of 1, 15 of 4,000 tokens ({counted} tokens of openai:o200k_base)" in told.out
    assert "openai" not in ask("query", *WAIT, "fetch_page").out
    assert "openai:o200k_base" in ask("status", "--budget-tokenizer", "openai:o200k_base").out


def test_vocabularies_are_listed_added_and_found(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tokens.find("o200k_base")
    assert packed is not None
    assert f"o200k_base      {packed.path}" in ask("tokenizer", "list").out.splitlines()
    monkeypatch.setattr(tokens, "_PACKAGES", ())
    assert "o200k_base      not on this machine" in ask("tokenizer", "list").out.splitlines()
    told = ask("query", "x", "--budget-tokenizer", "o200k_base")
    assert (2, "", 1) == (told.code, told.out, len(told.err.splitlines()))
    assert "`repo-provider tokenizer fetch o200k_base`" in told.err
    kept = tmp_path / ".local" / "share" / "repo-provider" / "tokenizers" / "o200k_base.tiktoken"
    assert Told(0, f"o200k_base      {kept}\n", "") == ask("tokenizer", "add", packed.path)
    assert f"o200k_base      {kept}" in ask("tokenizer", "list").out.splitlines()
    assert 0 == ask("query", *WAIT, "x", "--budget-tokenizer", "o200k_base").code
    other = ("--tokenizers", str(tmp_path / "other"))
    assert "o200k_base      not on this machine" in ask("tokenizer", "list", *other).out.splitlines()
    assert 0 == ask("tokenizer", "add", str(kept), *other).code
    assert 0 == ask("query", *WAIT, "x", "--budget-tokenizer", "o200k_base", *other).code


def test_fetching_says_from_where_before_it_reaches_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tokens.find("o200k_base")
    assert packed is not None
    url = tokens.vocabulary("o200k_base").url
    stderr, said = io.StringIO(), []
    stderr.reconfigure = lambda **_: None  # type: ignore[attr-defined]  # what a text stream of a process has

    def urlopen(asked: str, timeout: float) -> io.BytesIO:
        said.append(f"{asked} after {stderr.getvalue()}")
        return io.BytesIO(gzip.decompress(Path(packed.path).read_bytes()))

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setattr(sys, "stderr", stderr)
    code = run(["tokenizer", "fetch", "o200k_base"], Surroundings(str(tmp_path), str(tmp_path), 2))
    assert (0, [f"{url} after repo-provider: downloading {url}\n"]) == (code, said)
    assert tokens.find("o200k_base", [str(tmp_path / ".local/share/repo-provider/tokenizers")]) != packed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "x", "--budget-tokenizer", "p50k"], "unknown tokenizer 'p50k': known are cl100k_base, o200k_base"),
        (["tokenizer", "fetch", "p50k"], "unknown tokenizer 'p50k'"),
        (["tokenizer", "add", "notes.md"], "not the vocabulary of any of cl100k_base, o200k_base"),
        (["tokenizer", "add", "nowhere"], "cannot read"),
    ],
)
def test_a_wrong_tokenizer_is_one_line(ask: Ask, arguments: list[str], message: str) -> None:
    told = ask(*arguments)
    assert (2, "", 1) == (told.code, told.out, len(told.err.splitlines()))
    assert message in told.err


def test_a_host_is_not_left_with_a_tokenizer_nobody_knows(made: Made, tmp_path: Path) -> None:
    done = subprocess.run(
        command("serve", "-C", str(made.path), "--budget-tokenizer", "p50k"),
        env=environment(tmp_path), input=encode(HANDSHAKE) + b"\n", capture_output=True, timeout=60,
    )  # fmt: skip
    assert (2, b"") == (done.returncode, done.stdout)
    assert b"unknown tokenizer 'p50k'" in done.stderr


# --- history ---------------------------------------------------------------------------------------------------


def test_the_history_of_a_definition_is_drawn_to_scale(ask: Ask, made: Made) -> None:
    told = ask("history", "src/net.py#fetch_page")
    ids = [commit.hex()[:10] for commit in made.commits]
    assert (0, "") == (told.code, told.err)
    assert [
        "src/net.py#fetch_page: 2 versions",
        f"·······················█  2026-06-10T00:00:00Z until now                   L1-2         {ids[1]}  Commit 2",
        f"████████████████████████  2026-01-10T00:00:00Z until 2026-06-10T00:00:00Z  L1-2         {ids[0]}  Commit 1",
    ] == told.out.splitlines()
    assert told.out == ask("history", "net.py#fetch_page", directory=made.path / "src").out


def test_a_path_without_history_is_an_error(ask: Ask) -> None:
    told = ask("history", "nowhere.py")
    assert (2, "", 1) == (told.code, told.out, len(told.err.splitlines()))


# --- index, status, prune --------------------------------------------------------------------------------------


def test_indexing_is_silent_on_a_pipe(ask: Ask) -> None:
    told = ask("index")
    assert (0, "", "") == (told.code, told.out, told.err)


@fault(35)
def test_the_self_check_names_each_language_and_how_it_loaded(ask: Ask, tmp_path: Path) -> None:
    """Fault 35. It needs no repository."""
    told = ask("status", "--languages", directory=tmp_path)
    assert (0, "") == (told.code, told.err)
    assert any(line.split()[:2] == ["rust", "depth"] and "ABI" in line for line in told.out.splitlines())
    rows = json.loads(ask("status", "--languages", "--json", directory=tmp_path).out)
    assert "python" in {row["name"] for row in rows}


def test_the_status_says_what_is_served(ask: Ask, made: Made) -> None:
    made.write("huge.bin", b"\0" * 10)
    told = json.loads(ask("status", "--json").out)
    assert (str(made.path), "the working tree", 3) == (told["repository"], told["serves"], told["files"]["seen"])
    lines = ask("status").out.splitlines()
    assert f"repository  {made.path}" in lines
    assert "huge.bin" in ask("status", "--path", "*.bin").out


def test_the_status_of_a_file_spells_its_name_as_it_is(ask: Ask, made: Made) -> None:
    made.write("my_module.py", "x = 1\n")
    assert "my_module.py  served as python" in ask("status", "--path", "my_*").out
    assert "history truncated" in ask("status").out


def test_pruning_removes_the_index_of_a_repository_that_is_gone_and_no_other(
    ask: Ask, made: Made, tmp_path: Path
) -> None:
    """Fault 61."""
    other = make_repo([("2026-01-01", {"a.py": "x = 1\n"})])
    ask("index")
    ask("index", directory=other.path)
    folders = set((tmp_path / ".cache" / "repo-provider").iterdir())
    assert 2 == len(folders)
    shutil.rmtree(other.path)
    told = ask("prune")
    assert 0 == told.code
    removed = told.out.splitlines()[0]
    assert removed.startswith("removed  ")
    assert removed.endswith(f"  {other.path}/.git")
    assert 1 == len(set((tmp_path / ".cache" / "repo-provider").iterdir()))
    assert "" == ask("prune").out


# --- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["query", "x"], ["index"], ["status"]])
def test_outside_a_repository_every_command_refuses_and_says_what_to_do(
    ask: Ask, tmp_path: Path, command: list[str]
) -> None:
    """Fault 87: nothing walks a home directory because it stands there."""
    told = ask(*command, directory=tmp_path)
    assert (2, "") == (told.code, told.out)
    assert 1 == len(told.err.splitlines())
    assert "no git repository" in told.err
    assert "-C" in told.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["qury"], "No such command 'qury'"),
        (["key"], "Missing command. (`repo-provider key --help` shows how)"),
        (["tokenizer"], "Missing command. (`repo-provider tokenizer --help` shows how)"),
        (["query"], "Missing argument 'TEXT...'. (`repo-provider query --help` shows how)"),
        (["query", " "], "an empty question has no answer"),
        (["query", "x", "--kind", "poem"], "'poem' is not one of 'snippet'"),
        (["query", "x", "--max-frames", "-1"], "'-1' is no number from 0 to 4294967295"),
        (["query", "x", "--max-tokens", "4294967296"], "is no number from 0"),
        (["query", "x", "--deadline", "soon"], "--deadline takes seconds"),
        (["query", "x", "-C"], "Option '-C' requires an argument"),
        (["query", "x", "-C", "/nowhere\x1b[2J"], "-C takes a value without control characters"),
        (["query", "x", "--as-of", "\x1b[2J"], "\\x1b[2J"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_type(ask: Ask, arguments: list[str], message: str) -> None:
    told = ask(*arguments)
    assert (2, "") == (told.code, told.out)
    assert message in told.err
    assert 1 == len(told.err.splitlines())
    assert "\x1b" not in told.err


def test_a_fault_nobody_foresaw_is_one_line_too(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("repo_provider.provider.Provider.__init__", fail)
    told = ask("query", "x")
    assert 2 == told.code
    assert told.err.startswith("repo-provider: internal fault: KeyError('surprise') at test_cli.py:")
    assert 1 == len(told.err.splitlines())


@pytest.mark.parametrize("name", ["", *sorted(commands.commands)])
def test_help_has_an_example_of_every_command(ask: Ask, name: str) -> None:
    told = ask(*filter(None, [name]), "--help")
    assert 0 == told.code
    assert f"  repo-provider {name}" in told.out.partition("Options:")[0].partition("\n")[2]


def test_no_arguments_at_all_show_the_help(ask: Ask) -> None:
    assert ask("--help").out == ask().out


def test_what_a_repository_says_never_steers_the_terminal(ask: Ask, made: Made) -> None:
    made.write("src/\x1b[2Jevil.py", "def evil_name():\n    return '\x1b]0;owned\x07'\n")
    told = ask("query", *WAIT, "evil_name")
    assert "evil.py" in told.out
    assert "␛]0;owned␇" in told.out
    assert "\x1b" not in told.out + told.err


# --- the process -----------------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "repo_provider", *arguments]


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


def test_a_reader_that_goes_away_ends_the_command_quietly(made: Made, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command("query", "fetch_page", "-C", str(made.path), "--deadline", "0"),
        env=environment(tmp_path), stdout=write, stderr=subprocess.PIPE, timeout=60,
    )  # fmt: skip
    os.close(write)
    assert (141, b"") == (done.returncode, done.stderr)


def test_an_interrupt_ends_the_command_quietly(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("repo_provider.provider.Provider.query", interrupt)
    told = ask("query", "x")
    assert (130, "", "") == (told.code, told.out, told.err)


def test_colour_is_for_terminals_and_no_color_forbids_it(made: Made, tmp_path: Path) -> None:
    def on_a_terminal(**more: str) -> bytes:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command("query", "fetch_page", "-C", str(made.path), "--deadline", "0", "--no-store"),
            env=environment(tmp_path) | {"TERM": "xterm-256color"} | more, stdout=theirs, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 65_536):
                shown += data
        except OSError:  # Linux says so when the other side has closed
            pass
        os.close(ours)
        assert 0 == process.wait(60)
        return shown

    assert b"\x1b[" in on_a_terminal()
    assert b"\x1b[3" not in on_a_terminal(NO_COLOR="1")


def test_output_no_encoding_can_hold_is_escaped(made: Made, tmp_path: Path) -> None:
    made.write("src/umläut.py", "def umlaut_name():\n    return 'ü'\n")
    done = subprocess.run(
        command("query", "umlaut_name", "-C", str(made.path), "--deadline", "0"),
        env=environment(tmp_path) | {"PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert (0, b"") == (done.returncode, done.stderr)
    assert b"return '\\xfc'" in done.stdout


def test_serve_refuses_a_wrong_option_on_stderr_alone(tmp_path: Path) -> None:
    done = subprocess.run(command("serve", "--nope"), env=environment(tmp_path), capture_output=True, timeout=60)
    assert (2, b"", b"repo-provider: --nope: no such option; `repo-provider serve --help` lists them\n") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )


HEAVY = {
    "pygit2",
    "numpy",
    "tree_sitter",
    "click",
    "rich",
    "asyncio",
    "starlette",
    "uvicorn",
    "tiktoken",
    "sqlite3",
    "multiprocessing",
}


def test_the_acknowledgement_needs_no_heavy_import(made: Made, tmp_path: Path) -> None:
    """What is imported when `serve` has everything to acknowledge with, before the provider is loaded behind it."""
    program = (
        "import sys; sys.argv = ['repo-provider', 'serve', '-C', sys.argv[1]]\n"
        "from repo_provider import stdio\n"
        "def serve(service, *_, **__):\n"
        "    from repo_provider.session import Session\n"
        '    line = b\'{"type":"handshake","protocol_version":"contextgraph/1.0"}\'\n'
        "    assert Session(service).receive(line).run().type == 'handshake_ack'\n"
        "    import os; os.write(2, ' '.join(sorted({name.split('.')[0] for name in sys.modules})).encode())\n"
        "    return 0\n"
        "stdio.serve = serve\n"
        "from repo_provider.__main__ import main; main()\n"
    )
    serve = [sys.executable, "-c", program, str(made.path)]
    done = subprocess.run(serve, env=environment(tmp_path), capture_output=True, timeout=60, check=True)
    imported = set(done.stderr.decode().split())
    assert {"msgspec", "repo_provider"} <= imported
    assert set() == HEAVY & imported
