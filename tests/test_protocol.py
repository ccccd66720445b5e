"""Grammars and wire values against the specification's own vectors."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from repo_provider.errors import BadRequest
from repo_provider.protocol import (
    ContextFrame,
    digest,
    format_instant,
    format_range,
    line_starts,
    lines_span,
    parse_instant,
    parse_range,
    token_cost,
)
from tests.connect import SPEC
from tests.spec import requirement


def vectors(name: str) -> Any:
    return json.loads((SPEC / name).read_bytes())


def test_the_pinned_copies_are_unchanged() -> None:
    sums = [line.split("  ") for line in (SPEC / "SHA256SUMS").read_text().splitlines()]
    assert sums == [[hashlib.sha256((SPEC / name).read_bytes()).hexdigest(), name] for _, name in sums]
    pinned = {path.relative_to(SPEC).as_posix() for path in SPEC.rglob("*") if path.is_file()}
    assert pinned - {"SHA256SUMS", "README.md"} == {name for _, name in sums}


def test_the_golden_files_have_the_digests_their_manifest_gives() -> None:
    for name, expected in vectors("golden/manifest.json")["files"].items():
        assert expected == digest((SPEC / "golden" / name).read_bytes())


# --- ranges ----------------------------------------------------------------------------------------------------

RANGES = vectors("range-vectors.json")


@requirement("F17")
@pytest.mark.parametrize("case", RANGES["cases"], ids=lambda case: f"{case['resource']} {case.get('range', 'whole')!r}")
def test_a_range_addresses_the_bytes_of_its_vector(case: dict[str, str]) -> None:
    data = RANGES["resources"][case["resource"]].encode()
    lines = parse_range(case["range"]) if "range" in case else (1, len(data) + 1)
    span = lines_span(data, *lines) if lines else None
    if "range" not in case:
        span = (0, len(data))
    if "unverifiable" in case:
        assert span is None
        assert (case["unverifiable"] != "start_past_end") == (lines is None)
    else:
        assert span is not None
        assert case["bytes"].encode() == data[slice(*span)]
        assert case["digest"] == digest(data[slice(*span)])


@requirement("F17")
def test_a_line_number_may_be_longer_than_any_machine_integer() -> None:
    assert (2, 3) == lines_of(b"a\nb\nc\n", "L2-" + "9" * 5_000)
    assert parse_range("L" + "9" * 5_000) is not None
    assert lines_span(b"a\n", *(parse_range("L" + "9" * 5_000) or (1, 1))) is None


def lines_of(data: bytes, text: str) -> tuple[int, int]:
    span = lines_span(data, *(parse_range(text) or (0, 0)))
    assert span is not None
    return data[: span[0]].count(b"\n") + 1, data[: span[1] - 1].count(b"\n") + 1


@requirement("F17")
def test_one_line_is_written_without_an_end() -> None:
    assert "L5" == format_range(5, 5)
    assert "L5-6" == format_range(5, 6)


@requirement("F17")
@given(st.binary(max_size=60).map(lambda data: data.replace(b"\x00", b"\n")))
def test_lines_cover_the_bytes_without_gap_or_overlap(data: bytes) -> None:
    starts = line_starts(data)
    spans = [lines_span(data, line, line) for line in range(1, len(starts) + 1)]
    assert data == b"".join(data[slice(*span)] for span in spans if span)
    assert None not in spans
    assert lines_span(data, len(starts) + 1, len(starts) + 1) is None


@requirement("F17")
@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_range_reads_back_as_it_was_written(first: int, more: int) -> None:
    assert (first, first + more) == parse_range(format_range(first, first + more))


# --- instants --------------------------------------------------------------------------------------------------


@requirement("F4")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59Z", -1),
        ("2026-07-01T00:00:00Z", 1_782_864_000),
        ("2024-02-29T12:00:00Z", 1_709_208_000),
        ("2000-02-29T00:00:00Z", 951_782_400),
        ("2016-12-31T23:59:60Z", 1_483_228_800),  # a leap second is the second after it
        ("2026-07-01T00:00:00.5Z", 1_782_864_000),
        ("2026-07-01T00:00:00.000000000000000000001Z", 1_782_864_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0000-01-01T00:00:00Z", -62_167_219_200),
        ("0000-02-29T00:00:00Z", -62_162_121_600),
        ("0001-01-01T00:00:00Z", -62_135_596_800),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
    ],
)
def test_an_instant_is_the_whole_second_it_names(text: str, seconds: int) -> None:
    assert seconds == parse_instant(text)


@requirement("F4", "as-of-form")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-07-01",
        "2026-07-01T00:00:00",
        "2026-07-01t00:00:00Z",
        "2026-07-01T00:00:00z",
        "2026-07-01T00:00:00+00:00",
        "2026-07-01 00:00:00Z",
        "2026-07-01T00:00:00.Z",
        "2026-07-01T00:00:00,5Z",
        "2026-07-01T00:00Z",
        "2026-7-1T00:00:00Z",
        "2026-07-01T00:00:00Z\n",
        " 2026-07-01T00:00:00Z",
        "+2026-07-01T00:00:00Z",
        "20260-07-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z",
        "٢٠٢٦-07-01T00:00:00Z",
    ],
)
def test_what_is_no_instant_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_instant(text)
    assert "invalid_time" == caught.value.reason


@requirement("F4")
@pytest.mark.parametrize("seconds", [-62_167_219_201, 253_402_300_800, 2**63, -(2**63), 10**30])
def test_an_instant_without_a_spelling_is_left_out(seconds: int) -> None:
    assert format_instant(seconds) is None


@requirement("F4")
def test_the_first_and_the_last_instant_have_a_spelling() -> None:
    assert "0000-01-01T00:00:00Z" == format_instant(-62_167_219_200)
    assert "9999-12-31T23:59:59Z" == format_instant(253_402_300_799)


@requirement("F4")
@given(st.integers(-62_167_219_200, 253_402_300_799))
def test_an_instant_reads_back_as_it_was_written(seconds: int) -> None:
    assert seconds == parse_instant(format_instant(seconds) or "")


@requirement("F4")
@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_instants_agree_with_the_calendar_of_the_standard_library(moment: datetime) -> None:
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    text = moment.isoformat().replace("+00:00", "Z")
    assert text == format_instant(parse_instant(text))
    assert (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() == parse_instant(text)


# --- cost and digest -------------------------------------------------------------------------------------------


@requirement("B3")
@pytest.mark.parametrize(
    ("content", "cost"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 2, 1), ("é" * 3, 2), ("😀", 1), ("日本", 2)],
)
def test_cost_is_a_quarter_of_the_bytes_rounded_up(content: str, cost: int) -> None:
    assert cost == token_cost(content)


@requirement("B3")
def test_cost_agrees_with_the_golden_frames() -> None:
    full = [case["source"] for case in vectors("golden/context-frame.valid.json")["cases"]]
    for frame in [*full, vectors("golden/context-frame.compact.valid.json")]:
        assert frame["token_cost"] == token_cost(frame["content"])


def test_a_digest_is_sha256_in_lowercase_hex() -> None:
    assert "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" == digest(b"")


# --- frames ----------------------------------------------------------------------------------------------------


@requirement("shape")
def test_the_golden_full_frames_survive_decoding_and_encoding() -> None:
    """Members this provider never emits (embedding, recorded_at) are dropped, all others come back as they were."""
    for case in vectors("golden/context-frame.valid.json")["cases"]:
        source = {"content_digest": digest(case["source"]["content"].encode()), **case["source"]}
        kept = {name: value for name, value in source.items() if name not in ("embedding", "recorded_at")}
        assert kept == json.loads(msgspec.json.encode(msgspec.convert(source, ContextFrame)))


@requirement("shape")
def test_every_reference_message_is_what_the_schema_says() -> None:
    validator = Draft202012Validator(vectors("contextgraph-envelope.schema.json"))
    for line in (SPEC / "reference-vectors.ndjson").read_text().splitlines():
        validator.validate(json.loads(line))
