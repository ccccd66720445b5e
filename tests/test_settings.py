"""What was typed becomes what it means, once, for every edge."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from repo_provider.errors import BadRequest
from repo_provider.settings import (
    OPTIONS,
    SERVE_TAKES,
    Http,
    Settings,
    Sign,
    Surroundings,
    Typed,
    absolute,
    read,
    repository_folders,
    resolve,
    store_outside,
    table,
    typed_instant,
)
from tests.faults import fault


def meaning(*arguments: str, home: str | None = "/home/u", directory: str = "/src/app", cores: int = 8) -> Settings:
    return resolve(read(arguments), Surroundings(home, directory, cores))


# --- typed -----------------------------------------------------------------------------------------------------


def test_every_option_fills_one_field_and_every_field_has_one_option() -> None:
    assert sorted(Typed.__struct_fields__) == sorted(option.field for option in SERVE_TAKES)


def test_values_stand_behind_a_space_or_an_equals_sign() -> None:
    expected = Typed(path="x", ref="main", deadline="0", no_store=True)
    assert expected == read(["-C", "x", "--ref", "main", "--deadline", "0", "--no-store"])
    assert expected == read(["-Cx", "--ref=main", "--deadline=0", "--no-store"])
    assert Typed(path="=odd") == read(["-C=odd"])
    assert Typed(ref="a=b") == read(["--ref=a=b"])


def test_a_flag_that_may_stand_alone_takes_the_next_word_only_where_it_is_no_option() -> None:
    assert ["127.0.0.1:0"] * 2 == [read(words).http for words in (["--http"], ["--http", "-C", "x"])]
    assert ["[::1]:80"] * 2 == [read(words).http for words in (["--http", "[::1]:80"], ["--http=[::1]:80"])]


def test_the_last_of_two_wins() -> None:
    assert Typed(path="b") == read(["-C", "a", "-C", "b"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nope"], "--nope: no such option"),
        (["stray"], "stray: no such option"),
        (["--ref"], "--ref needs a value"),
        (["-C"], "-C needs a value"),
        (["--no-store=1"], "--no-store takes no value"),
    ],
)
def test_a_word_that_is_no_option_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        read(arguments)


# --- meaning ---------------------------------------------------------------------------------------------------


def test_nothing_typed_serves_the_current_directory_with_the_defaults() -> None:
    assert meaning() == Settings(
        path="/src/app",
        ref=None,
        name="repo-provider",
        store="/home/u/.cache/repo-provider",
        deadline=1.8,
        max_file_size=1_048_576,
        workers=4,
        notes=(),
        tokenizers=("/home/u/.local/share/repo-provider/tokenizers",),
    )


def test_paths_become_absolute_and_keep_the_users_spelling(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real / "inner")
    assert str(tmp_path / "link") == absolute(str(tmp_path), "link")
    assert str(tmp_path / "link") == absolute(str(tmp_path), "./real/../link/")
    assert str(real) == absolute(str(tmp_path), "link/..")  # what the kernel would open, not what the text says


def test_where_the_current_directory_is_gone_only_absolute_paths_mean_something() -> None:
    assert "/src/app" == meaning("-C", "/src/app", directory="").path
    with pytest.raises(BadRequest, match="the current directory is gone"):
        meaning(directory="")


@pytest.mark.parametrize(("typed", "expected"), [("0", None), ("0.0", None), ("2", 2.0), ("1e1", 10.0)])
def test_a_deadline_is_seconds_and_zero_waits(typed: str, expected: float | None) -> None:
    assert expected == meaning("--deadline", typed).deadline


@pytest.mark.parametrize(
    ("typed", "expected"), [("1", 1), ("65536", 65_536), ("512K", 524_288), ("2M", 2_097_152), ("1mib", 1_048_576)]
)
def test_a_size_is_bytes_or_has_a_unit(typed: str, expected: int) -> None:
    assert expected == meaning("--max-file-size", typed).max_file_size


def test_there_is_one_worker_a_core_and_at_most_four() -> None:
    assert [1, 1, 3, 4] == [meaning(cores=cores).workers for cores in (0, 1, 3, 64)]
    assert 12 == meaning("--workers", "12").workers


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("--deadline", value) for value in ("", "soon", "-1", "nan", "inf")),
        *(("--max-file-size", value) for value in ("", "0", "-1", "1G", "1.5M", "٣")),
        *(("--workers", value) for value in ("", "0", "-1", "65", "two", "٣", "9" * 5_000)),
        *((flag, value) for flag in ("--name", "--ref", "--store", "-C") for value in (" ", "a\nb", "\x1b[2J")),
    ],
)
def test_a_value_without_meaning_is_refused_by_the_options_name(flag: str, value: str) -> None:
    with pytest.raises(BadRequest, match=flag) as caught:
        meaning(flag, value)
    assert "\n" not in caught.value.message
    assert "\x1b" not in caught.value.message


# --- how to listen ---------------------------------------------------------------------------------------------


def test_http_listens_on_loopback_at_any_free_port_unless_told_otherwise() -> None:
    assert meaning().http is None
    assert Http("127.0.0.1", 0) == meaning("--http").http
    assert Http("127.0.0.1", 80) == meaning("--http", "LocalHost:80").http
    assert Http("::1", 8_080) == meaning("--http", "[::1]:8080").http
    assert Http("127.8.0.1", 0) == meaning("--http", "127.8.0.1").http


def test_files_of_the_http_options_are_made_absolute_and_lists_are_split() -> None:
    typed = ["--http", "--token-file", "t", "--tls-cert", "/c", "--tls-key", "k", "--behind-proxy"]
    typed += [
        "--allow-host",
        "Code.example, code.example:8443",
        "--allow-origin",
        "https://Notes.example,http://[::1]:1",
    ]
    assert meaning(*typed).http == Http(
        "127.0.0.1",
        0,
        token_file="/src/app/t",
        certificate="/c",
        key="/src/app/k",
        behind_proxy=True,
        hosts=("code.example", "code.example:8443"),
        origins=("https://notes.example", "http://[::1]:1"),
    )


@pytest.mark.parametrize("address", ["0.0.0.0:80", "[::]:80", "192.168.0.7", "[fe80::1]:1", "8.8.8.8:443"])
def test_beyond_loopback_a_token_and_tls_or_a_proxy_are_needed(address: str) -> None:
    """Fault 101."""
    tls = ["--tls-cert", "c", "--tls-key", "k"]
    for typed, missing in (
        ([], "needs --token-file"),
        (tls, "needs --token-file"),
        (["--behind-proxy"], "needs --token-file"),
        (["--token-file", "t"], "needs --tls-cert and --tls-key, or --behind-proxy"),
    ):
        with pytest.raises(BadRequest, match=missing):
            meaning("--http", address, *typed)
    assert meaning("--http", address, "--token-file", "t", *tls).http is not None
    assert meaning("--http", address, "--token-file", "t", "--behind-proxy").http is not None


def test_a_proxy_in_front_of_loopback_needs_a_token_too() -> None:
    with pytest.raises(BadRequest, match="needs --token-file"):
        meaning("--http", "--behind-proxy")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        *((["--http", value], "--http takes an address") for value in ("", "host.example:80", ":80", "1.2.3:4", "::1")),
        *(
            (["--http", value], "--http takes an address")
            for value in ("127.0.0.1:65536", "127.0.0.1:x", "[::1", "a/b")
        ),
        (["--http", "--tls-cert", "c"], "go together"),
        (["--http", "--tls-key", "k"], "go together"),
        (["--http", "--allow-host", "a b"], "--allow-host does not take 'a b'"),
        (["--http", "--allow-host", "a,,b"], "--allow-host does not take ''"),
        (["--http", "--allow-origin", "*"], "--allow-origin does not take"),
        (["--http", "--allow-origin", "null"], "--allow-origin does not take"),
        (["--http", "--allow-origin", "https://a.example/"], "--allow-origin does not take"),
        (["--http", "--token-file", " "], "--token-file takes"),
        (["--token-file", "t"], "--token-file means nothing without --http"),
        (["--behind-proxy"], "--behind-proxy means nothing without --http"),
    ],
)
def test_what_makes_no_sense_about_listening_is_named(typed: list[str], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        meaning(*typed)


# --- where the store lies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_the_index_is_kept_in_memory_and_one_note_says_so(home: str | None) -> None:
    settings = meaning(home=home)
    assert settings.store is None
    assert ("HOME is not set: the index is kept in memory (--store DIR keeps it on disk)",) == settings.notes


def test_no_store_is_silent_about_it() -> None:
    assert (None, ()) == (meaning("--no-store", home=None).store, meaning("--no-store", home=None).notes)
    assert (None, None) == store_outside(meaning("--no-store"), ["/src/app"])


def test_a_store_is_never_kept_inside_the_repository(tmp_path: Path) -> None:
    (tmp_path / "repo" / "cache").mkdir(parents=True)
    (tmp_path / "way-in").symlink_to(tmp_path / "repo")
    for inside in ("repo", "repo/cache", "repo/new/deep", "way-in/cache"):
        store, note = store_outside(Settings(path="/x", store=str(tmp_path / inside)), [str(tmp_path / "repo")])
        assert store is None
        assert note is not None
        assert "lies inside the repository" in note
    beside = str(tmp_path / "repo-cache")
    assert (beside, None) == store_outside(Settings(path="/x", store=beside), [None, str(tmp_path / "repo")])


def test_a_store_that_cannot_be_written_is_kept_in_memory(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    place = "/proc/self" if os.geteuid() == 0 else str(tmp_path)  # root may write where the mode forbids it
    store, note = store_outside(Settings(path="/x", store=place + "/sub/store"), [])
    assert (None, f"the store {place}/sub/store cannot be written: the index is kept in memory") == (store, note)


def test_a_store_whose_place_is_a_file_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in ("file", "file/below"):
        assert store_outside(Settings(path="/x", store=str(tmp_path / place)), [])[0] is None


# --- instants --------------------------------------------------------------------------------------------------

DAY = 86_400


@fault(27)
def test_a_bare_date_is_the_end_of_that_day_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """A date means one instant, whatever the clock says and wherever it is asked."""
    days = (date(2026, 8, 9) - date(1970, 1, 1)).days
    for zone in ("America/New_York", "UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        assert (days + 1) * DAY - 1 == typed_instant("2026-08-09")


def test_a_timestamp_is_itself() -> None:
    assert 0 == typed_instant("1970-01-01T00:00:00Z")
    assert 1 == typed_instant("1970-01-01T00:00:01.999Z")


@pytest.mark.parametrize(
    "text", ["2026-13-01", "2026-02-29", "2026-8-9", "2026-08-09T12:00:00", "2026-08-09T12:00:00+02:00",
             "2026-08-09 12:00", "2026-08-09t12:00:00z"],
)  # fmt: skip
def test_what_looks_like_a_time_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="UTC") as caught:
        typed_instant(text)
    assert "invalid_time" == caught.value.reason


@pytest.mark.parametrize(
    "text", ["v1.2", "HEAD", "4f2a91c", "refs/tags/2026-08-09", "2026-08-09-hotfix", "", "20260809"]
)
def test_what_looks_like_no_time_is_left_for_the_repository_to_resolve(text: str) -> None:
    assert typed_instant(text) is None


# --- documentation ---------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_option() -> None:
    assert len(OPTIONS) + 2 == len(table().splitlines())
    assert "| `--deadline SECONDS` | " in table()
    assert "| `--no-store` | " in table()


# --- signing, counting -----------------------------------------------------------------------------------------


def test_the_key_file_is_in_the_home_unless_it_is_named() -> None:
    assert None is meaning().sign
    assert Sign("/home/u/.config/repo-provider/key.json") == meaning("--sign").sign
    assert Sign("/src/app/k.json", each=True) == meaning("--sign", "k.json", "--sign-each").sign
    assert Sign("/k.json") == meaning("--sign=/k.json", "-C", "/src").sign
    with pytest.raises(BadRequest, match="HOME is not set: say which KEYFILE"):
        meaning("--sign", home=None)
    with pytest.raises(BadRequest, match="--sign-each means nothing without --sign"):
        meaning("--sign-each")


def test_the_repository_that_encloses_a_path_is_told_from_names(tmp_path: Path) -> None:
    inner = tmp_path / "work" / "src"
    inner.mkdir(parents=True)
    assert () == repository_folders(str(inner))
    (tmp_path / "work" / "HEAD").touch()
    assert () == repository_folders(str(inner))
    (tmp_path / "work" / "objects").mkdir()
    assert (str(tmp_path / "work"),) == repository_folders(str(inner))
    (inner / ".git").touch()  # of a linked worktree
    assert (str(inner),) == repository_folders(str(inner / "missing"))
    assert (str(inner),) == meaning("--sign", "-C", str(inner)).sign.outside  # type: ignore[union-attr]


def test_vocabularies_lie_in_the_home_unless_a_folder_is_named() -> None:
    assert (None, ("/home/u/.local/share/repo-provider/tokenizers",)) == (
        meaning().tokenizer,
        meaning().tokenizers,
    )
    told = meaning("--budget-tokenizer", "o200k_base", "--tokenizers", "v", home=None)
    assert ("o200k_base", ("/src/app/v",)) == (told.tokenizer, told.tokenizers)
    assert () == meaning(home=None).tokenizers
