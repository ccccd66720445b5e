"""The README's examples are run, and its tables are what the program says of itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from repo_provider.cli import commands
from repo_provider.files import languages
from repo_provider.settings import BUDGET_OPTIONS, OPTIONS, SERVE_OPTIONS, SIGN_OPTIONS, table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


INSTALL_AND_ASK, INSTALL_AND_TEST, SERVE, *_ = blocks("sh")


def run(arguments: list[str], home: Path, *, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run in the checkout with what a host leaves of the environment: PATH and HOME."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return subprocess.run(
        arguments,
        cwd=ROOT,
        env={"PATH": path, "HOME": str(home)},
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


def test_the_first_command_asks_this_repository_and_gets_what_the_readme_shows(tmp_path: Path) -> None:
    install, ask = INSTALL_AND_ASK.split(" && ")
    assert "python3 -m pip install -c constraints.txt ." == install
    done = run([*shlex.split(ask), "--deadline", "0"], tmp_path)
    assert (0, "") == (done.returncode, done.stderr)
    (shown,) = blocks("text")
    assert _files(shown)[0] in _files(done.stdout)
    for answer in (shown, done.stdout):
        assert 2 == len(_files(answer))
        assert re.search(r"^2 frames of 2, [\d,]+ of 4,000 tokens", answer, re.MULTILINE)


def _files(answer: str) -> list[str]:
    return re.findall(r"^\d+\. (\S+) L\d", answer, re.MULTILINE)


def test_ci_runs_the_second_command_as_it_stands_here() -> None:
    assert INSTALL_AND_TEST in (ROOT / ".ci" / "run").read_text()


def test_the_host_settings_start_the_command_a_host_spawns() -> None:
    settings, *_ = blocks("json")
    provider = json.loads(settings)["context_providers"]["repo"]
    assert shlex.split(SERVE) == [provider["command"], *provider["args"]]


def test_the_pasted_session_is_answered_line_by_line(tmp_path: Path) -> None:
    (session,) = blocks("ndjson")
    done = run(["repo-provider", "serve", "-C", ".", "--deadline", "0"], tmp_path, stdin=session)
    assert (0, "") == (done.returncode, done.stderr)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["error", "frames", "frames", "handshake_ack", "verified"][1:] == sorted(reply["type"] for reply in replies)
    answers = {reply["id"]: reply["result"] for reply in replies if "id" in reply}
    assert 0 < len(answers["q1"]["frames"]) <= 3
    assert {"symbol"} == {frame["kind"] for frame in answers["q2"]["frames"]}
    (verdicts,) = (reply["response"]["verdicts"] for reply in replies if reply["type"] == "verified")
    assert ["stale"] == [verdict["status"] for verdict in verdicts]


def test_the_small_host_runs_and_every_frame_it_was_given_is_valid(tmp_path: Path) -> None:
    (host,) = blocks("python")
    assert len(host.splitlines()) <= 24
    waiting = host.replace('"-C", "."', '"-C", ".", "--deadline", "0"')  # a busy machine may cut an answer short
    done = run([sys.executable, "-c", waiting], tmp_path)
    assert (0, "") == (done.returncode, done.stderr)
    assert 0 < len(done.stdout.splitlines()) <= 5
    assert {"valid"} == {line.split()[0] for line in done.stdout.splitlines()}


def test_the_options_are_the_programs_own() -> None:
    tables = {"": OPTIONS, "serve ": SERVE_OPTIONS, "sign ": SIGN_OPTIONS, "budget ": BUDGET_OPTIONS}
    for name, options in tables.items():
        assert f"<!-- {name}options -->\n{table(options)}\n" in README


def test_every_command_stands_in_the_table_and_every_row_is_a_command() -> None:
    told = re.findall(r"^\| `([a-z]+)[^`]*` \| ", README.partition("## Commands")[2].partition("<!--")[0], re.MULTILINE)
    assert sorted(commands.commands) == sorted(told)


def test_every_command_that_is_shown_takes_the_options_it_is_shown_with() -> None:
    lines = [line for block in blocks("console") for line in block.splitlines() if line.startswith("$ repo-provider ")]
    assert lines
    for _, _, name, *words in map(shlex.split, lines):
        command = commands.commands[name]
        if isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        known = {flag for parameter in command.params for flag in parameter.opts}
        assert set() == {word for word in words if word.startswith("-")} - known


def test_every_language_is_told_where_its_level_is() -> None:
    rows = dict(re.findall(r"^\| (in depth|in outline|as text) \| ([^|]+) \|", README, re.MULTILINE))
    names = {"depth": "in depth", "outline": "in outline", "text": "as text"}
    for level, name in names.items():
        titles = {one.title for one in languages().values() if one.level == level}
        assert titles == set(rows[name].split(", "))


def test_every_link_inside_leads_to_a_heading() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.*)$", README, re.M)
    }
    assert set() == set(re.findall(r"\]\(#([^)]*)\)", README)) - headings


@pytest.mark.parametrize("module", sorted(path.name for path in (ROOT / "repo_provider").glob("[a-z]*.py")))
def test_every_module_stands_in_the_map(module: str) -> None:
    assert f"`{module}`" in README
