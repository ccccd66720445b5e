"""Questions as people and agents ask them, against a repository made to mislead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from repo_provider.frames import parse_name
from repo_provider.protocol import ContextQuery
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from tests.faults import fault
from tests.repos import Files, make_repo

NAMES = ("getUserName", "HTTPSConnection", "user_id", "parse2FAToken", "MAX_RETRY", "IOErrorHandler")
FILES: Files = {
    **{f"src/{n}.py": f"def {name}(value):\n    return value\n".encode() for n, name in enumerate(NAMES)},
    **{f"other/{n}.py": f"def unrelated_{n}(value):\n    return value + {n}\n".encode() for n in range(30)},
    "config/settings.py": b"import json\n\n\ndef load_settings(path):\n    with open(path) as file:\n"
    b"        return json.load(file)\n",
    "notes.txt": b"version 38.101 is dutch-made, see os.path.join\n",
    "cjk.py": "# 重跑gen_itgc后50条引用\nx = 1\n".encode(),
    "odd/go.go": b"package odd\n\nfunc Go() {}\n",
}
TRACEBACK = (
    "the service died again last night\n\nTraceback (most recent call last):\n"
    + "".join(f'  File "/srv/app/lib/frame_{n}.py", line {n}, in step_{n}\n    step_{n + 1}()\n' for n in range(1, 18))
    + '  File "/srv/app/config/settings.py", line 6, in load_settings\n    return json.load(file)\n'
    + "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
)


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    made = make_repo([("2026-01-01", FILES)], tmp_path_factory.mktemp("relevance") / "r")
    opened = Provider(Settings(str(made.path), workers=1))
    yield opened
    opened.close()


def first_paths(provider: Provider, goal: str) -> list[str]:
    names = [parse_name(frame.id) for frame in provider.query(ContextQuery(goal, 3, 4000)).frames]
    return [name.path.decode() for name in names if name is not None]


@fault(104)
@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("user name", "getUserName"),
        ("https connection", "HTTPSConnection"),
        ("id", "user_id"),
        ("2fa token", "parse2FAToken"),
        ("max retry", "MAX_RETRY"),
        ("io error", "IOErrorHandler"),
    ],
)
def test_the_words_of_a_name_find_it(provider: Provider, question: str, name: str) -> None:
    assert f"src/{NAMES.index(name)}.py" in first_paths(provider, question)


@fault(104)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spelled", [str, str.lower, str.upper])
def test_a_whole_name_finds_itself_first_in_any_case(provider: Provider, name: str, spelled: type[str]) -> None:
    assert f"src/{NAMES.index(name)}.py" == first_paths(provider, spelled(name))[0]


@fault(109)
@pytest.mark.parametrize(
    "question",
    ["where do we load the settings file from disk please", TRACEBACK, "JSONDecodeError: in load_settings, Expecting"],
)
def test_words_that_stand_nowhere_hide_nothing(provider: Provider, question: str) -> None:
    assert "config/settings.py" in first_paths(provider, question)


@fault(109)
@pytest.mark.parametrize(
    "question", ["?", "...", "the of and", "\u00a0", "zzzzqqq", "x" * 10_000, "lorem ipsum " * 5_000]
)
def test_a_question_of_nothing_has_an_answer(provider: Provider, question: str) -> None:
    assert len(first_paths(provider, question)) <= 3


@fault(52, 53)
@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("38.101", "notes.txt"),
        ("dutch-made", "notes.txt"),
        ("os.path.join", "notes.txt"),
        ("path.join", "notes.txt"),
        ("重跑", "cjk.py"),
        ("gen_itgc", "cjk.py"),
        ("引用", "cjk.py"),
        ("go", "odd/go.go"),
    ],
)
def test_words_with_marks_in_them_and_words_of_two_letters_are_found(
    provider: Provider, question: str, path: str
) -> None:
    assert path in first_paths(provider, question)
