"""The store: what is put comes back, from disk or from memory, and nothing that happens to it reaches a caller."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repo_provider import store as store_module
from repo_provider.store import Rebuilds, Store, remove, stores

KEY = "/home/me/project/.git"


def opened(tmp_path: Path, **options: bool) -> Store:
    return Store.open(str(tmp_path / "stores"), KEY, clock=lambda: 1_700_000_000.5, **options)


def segments(store: Store, corpus: str) -> dict[str, bytes]:
    return {name: bytes(store.segment(name) or b"") for name in store.segment_names(corpus) or ()}


def folder(tmp_path: Path) -> Path:
    (only,) = (tmp_path / "stores").iterdir()
    return only


# --- values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "disk", "network"])
def test_what_is_put_comes_back(tmp_path: Path, kind: str) -> None:
    store = Store.open(None, KEY) if kind == "memory" else opened(tmp_path, network=kind == "network")
    store.put_many("outlines", {b"a": b"1", b"b": b""})
    store.put_many("outlines", {b"a": b"2"})
    store.put_many("runs", {b"a": b"other"})
    assert {b"a": b"2", b"b": b""} == store.get_many("outlines", [b"a", b"b", b"c", b"a"])
    store.close()


@pytest.mark.parametrize("network", [False, True])
def test_values_outlive_the_process(tmp_path: Path, network: bool) -> None:
    items = {n.to_bytes(2, "big"): bytes([n % 251]) * n for n in range(1_200)}
    first = opened(tmp_path, network=network)
    first.put_many("outlines", items)
    first.close()
    second = opened(tmp_path, network=network)
    assert items == second.get_many("outlines", items)
    assert (not network) == (folder(tmp_path) / "store.sqlite-wal").exists()
    second.close()


def test_a_flushed_value_is_read_from_disk(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.put_many("t", {b"k": b"v"})
    assert store.flush()
    assert {b"k": b"v"} == store.get_many("t", [b"k"])
    assert 0 == store._pending.size
    store.close()


def test_the_oldest_values_leave_memory_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_MEMORY_LIMIT", 10)
    store = Store.open(None, KEY)
    store.put_many("t", {b"a": b"1234", b"b": b"5678"})
    store.put_many("t", {b"a": b"12", b"c": b"5"})
    assert {b"a": b"12", b"b": b"5678", b"c": b"5"} == store.get_many("t", [b"a", b"b", b"c"])
    store.put_many("t", {b"d": b"9"})
    assert {b"a": b"12", b"c": b"5", b"d": b"9"} == store.get_many("t", [b"a", b"b", b"c", b"d"])
    store.close()


def test_a_table_can_be_cut_down_to_what_is_wanted(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.put_many("t", {bytes([n]): os.urandom(20_000) for n in range(200)})
    store.put_many("u", {b"x": b"y"})
    store.flush()
    store.vacuum()
    before = store.facts().size
    store.keep_only("t", [b"\x07"])
    store.vacuum()
    assert store.facts().size * 20 < before
    assert {b"\x07"} == set(store.get_many("t", [bytes([n]) for n in range(200)]))
    assert {b"x": b"y"} == store.get_many("u", [b"x"])
    store.close()


# --- segments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [False, True])
def test_segments_outlive_the_process(tmp_path: Path, network: bool) -> None:
    first = opened(tmp_path, network=network)
    generation = first.generation()
    name = first.replace_segments("contents", [], b"segment bytes")
    other = first.replace_segments("paths", [], b"more")
    assert name is not None
    assert generation < first.generation()
    first.close()
    second = opened(tmp_path, network=network)
    assert {name: b"segment bytes"} == segments(second, "contents")
    assert [other] == list(segments(second, "paths"))
    second.close()


def test_a_segment_takes_the_place_of_others(tmp_path: Path) -> None:
    store = opened(tmp_path)
    old = [store.replace_segments("contents", [], data) or "" for data in (b"a", b"b", b"c")]
    new = store.replace_segments("contents", old[:2], b"ab")
    assert {old[2]: b"c", new: b"ab"} == segments(store, "contents")
    assert new == store.replace_segments("contents", [new or "", old[2]], b"ab")
    assert {new: b"ab"} == segments(store, "contents")
    assert 1 == len(list(folder(tmp_path).glob("*.segment")))
    store.close()


def test_a_mapped_segment_can_be_read_after_it_was_replaced(tmp_path: Path) -> None:
    store = opened(tmp_path)
    name = store.replace_segments("contents", [], b"old")
    mapped = store.segment(name or "")
    store.replace_segments("contents", [name or ""], b"new")
    assert b"old" == bytes(mapped or b"")
    assert store.segment(name or "") is None
    store.close()


def test_memory_keeps_no_segments() -> None:
    store = Store.open(None, KEY)
    assert store.replace_segments("contents", [], b"data") is None
    assert {} == segments(store, "contents")
    assert 0 == store.generation()


# --- state -----------------------------------------------------------------------------------------------------


def test_facts_say_what_there_is(tmp_path: Path) -> None:
    store = opened(tmp_path)
    facts = store.facts()
    assert ("owner", str(folder(tmp_path)), Rebuilds(), ()) == (
        facts.role,
        facts.location,
        facts.rebuilds,
        facts.notes,
    )
    assert facts.size > 0
    store.close()
    memory = Store.open(None, KEY).facts()
    assert ("memory", None, 0) == (memory.role, memory.location, memory.size)


def test_only_the_user_can_read_a_store(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.put_many("t", {b"k": b"v"})
    store.replace_segments("contents", [], b"data")
    store.flush()
    assert 0o700 == stat.S_IMODE(folder(tmp_path).stat().st_mode)
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in folder(tmp_path).iterdir()}
    store.close()


@pytest.mark.parametrize(("version", "reason"), [(0, "an older"), (2**20, "a newer")])
def test_a_store_of_another_version_is_rebuilt_with_a_notice(tmp_path: Path, version: int, reason: str) -> None:
    first = opened(tmp_path)
    first.put_many("t", {b"k": b"v"})
    first.close()
    with sqlite3.connect(folder(tmp_path) / "store.sqlite") as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    second = opened(tmp_path)
    assert {} == second.get_many("t", [b"k"])
    second.put_many("t", {b"k": b"w"})
    assert second.flush()
    facts = second.facts()
    assert Rebuilds(1, f"it was made by {reason} version", 1_700_000_000) == facts.rebuilds
    assert any(reason in note for note in facts.notes)
    second.close()


def test_a_closed_store_answers_nothing_and_takes_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.close()
    store.close()
    assert store.replace_segments("contents", [], b"x") is None
    assert {} == store.get_many("t", [b"k"])


def test_stores_are_listed_with_their_repository_and_can_be_removed(tmp_path: Path) -> None:
    directory = str(tmp_path / "stores")
    assert [] == stores(directory)
    one, other = Store.open(directory, "/a"), Store.open(directory, os.fsdecode(b"/b\xff"))
    assert {"/a", os.fsdecode(b"/b\xff")} == {found.repository for found in stores(directory)}
    location = one.facts().location or ""
    assert not remove(location)
    one.close()
    assert remove(location)
    assert [os.fsdecode(b"/b\xff")] == [found.repository for found in stores(directory)]
    assert not remove(str(tmp_path / "nowhere"))
    other.close()


_OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(st.binary(max_size=2), st.binary(max_size=9), max_size=4)),
        st.tuples(st.sampled_from(["flush", "reopen"]), st.just({})),
    ),
    max_size=8,
)


@given(operations=_OPERATIONS)
def test_a_store_behaves_like_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, dict[bytes, bytes]]]
) -> None:
    directory = tmp_path_factory.mktemp("store")
    store, expected = opened(directory), dict[bytes, bytes]()
    for operation, items in operations:
        if operation == "put":
            store.put_many("t", items)
            expected |= items
        elif operation == "flush":
            store.flush()
        else:
            store.close()
            store = opened(directory)
        assert expected == store.get_many("t", expected)
    store.close()
