"""Commitments, proofs, signatures, and the file a key lives in."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from repo_provider.attest import (
    Finding,
    Key,
    chain_head,
    commitment,
    encode_link,
    fingerprint,
    inclusion_proofs,
    is_signed,
    load_key,
    make_key,
    merkle_root,
    new_key,
    proven_root,
    read_answers,
    rotate_key,
    sign_result,
    verify_result,
)
from repo_provider.errors import BadRequest, Internal, ProviderError
from repo_provider.protocol import (
    ContextFrame,
    ContextQueryResult,
    Digest,
    FrameAttestation,
    FrameId,
    InclusionProof,
    InclusionStep,
    Provenance,
    digest,
)
from tests.connect import HANDSHAKE, Connection, encode, query, repository
from tests.repos import Made, make_repo
from tests.spec import requirement

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "fixtures/spec/attestation-vectors.json").read_text(encoding="utf-8")
)
SEED = bytes.fromhex(VECTORS["signature"]["signing_key_seed_hex"])
PUBLIC = VECTORS["signature"]["public_key_hex"]
NOW = "2026-08-27T00:00:00Z"


def link(name: str) -> Provenance:
    return msgspec.convert(VECTORS["links"][name], Provenance)


def frame(id: str, content: str = "", provenance: tuple[Provenance, ...] = (), held: str | None = None) -> ContextFrame:
    stated = digest(content.encode()) if held is None else Digest(held)
    return ContextFrame(id, "snippet", id, 0.5, -(-len(content) // 4), content, stated, provenance=provenance)


# --- vectors ---------------------------------------------------------------------------------------------------


@requirement("attest-bytes")
def test_links_are_encoded_byte_for_byte() -> None:
    for name, encoded in VECTORS["link_encodings_hex"].items():
        assert encoded == encode_link(link(name)).hex()
    assert "0000000466696c65010000000000000000" == encode_link(Provenance("file", uri="")).hex()
    assert "0000000466696c650000000000" == encode_link(Provenance("file")).hex()


@requirement("attest-bytes")
def test_lengths_are_of_utf8_bytes() -> None:
    trap = VECTORS["unicode_length_trap"]
    encoded = encode_link(link("unicode"))
    for member in ("uri", "by"):
        data = getattr(link("unicode"), member).encode()
        assert trap[member]["utf8_bytes"] == len(data)
        assert len(data).to_bytes(4, "big") + data in encoded


@requirement("attest-bytes")
def test_chain_heads_are_the_published_ones() -> None:
    heads = VECTORS["chain_heads"]
    assert heads["empty"] == shown(chain_head([]))
    assert heads["file"] == shown(chain_head([link("file")]))
    assert heads["file_then_derivation"] == shown(chain_head([link("file"), link("derivation")]))
    assert heads["unicode"] == shown(chain_head([link("unicode")]))
    empty, absent = Provenance("file", uri=""), Provenance("file")
    assert "sha256:616d4fa60a91420472f7fcc1ebb49ff503a05104e3762570b67011dbbcd22152" == shown(chain_head([empty]))
    assert "sha256:1bba53f2944ffeb223e7418e32780d0e91510f6b3c58787055f1109a525d5675" == shown(chain_head([absent]))


def shown(raw: bytes) -> str:
    return f"sha256:{raw.hex()}"


def vector_frame() -> ContextFrame:
    given = VECTORS["frame_commitment"]["frame"]
    return frame(given["id"], held=given["content_digest"], provenance=tuple(map(link, given["provenance"])))


@requirement("F7", "attest-bytes")
def test_a_frame_commitment_is_the_published_one() -> None:
    vector = VECTORS["frame_commitment"]
    assert vector["commitment"] == shown(commitment(vector["provider_id"], vector_frame()))


def vector_leaves() -> list[bytes]:
    merkle = VECTORS["merkle"]
    frames = [frame(leaf["id"], held=leaf["content_digest"]) for leaf in merkle["leaf_frames"]]
    return [commitment(merkle["provider_id"], one) for one in frames]


@requirement("F12", "attest-bytes")
def test_roots_are_the_published_ones() -> None:
    for count, root in VECTORS["merkle"]["roots_by_leaf_count"].items():
        assert root == shown(merkle_root(vector_leaves()[: int(count)]))


@requirement("F13")
def test_the_published_proof_is_made_and_leads_to_the_root() -> None:
    vector = msgspec.convert(VECTORS["merkle"]["inclusion_proof"], InclusionProof)
    assert vector == inclusion_proofs(vector_leaves())[3]
    assert merkle_root(vector_leaves()) == proven_root(vector_leaves()[3], vector)


def test_the_published_signature_is_made_and_holds() -> None:
    vector = VECTORS["signature"]
    key = make_key(SEED)
    data = commitment(VECTORS["frame_commitment"]["provider_id"], vector_frame())
    assert vector["public_key_hex"] == key.published.public_key
    assert vector["attestation"]["signature"] == key.private.sign(data).hex()
    assert is_signed(bytes.fromhex(PUBLIC), data, bytes.fromhex(vector["attestation"]["signature"]))


# --- strictness ------------------------------------------------------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SMALL_ORDER = [bytes.fromhex(key) for key in VECTORS["verifier_strictness"]["small_order_public_keys_hex"]]
NON_CANONICAL = [bytes.fromhex(key) for key in VECTORS["verifier_strictness"]["non_canonical_public_keys_hex"]]


def add(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
    (x1, y1), (x2, y2) = one, two
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    return x, (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P


def decoded(encoded: bytes) -> tuple[int, int]:
    y = int.from_bytes(encoded, "little") & 2**255 - 1
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    assert (x * x - square) % P == 0
    return (P - x if (x & 1) != encoded[31] >> 7 and x else x), y


def test_the_published_small_order_keys_are_of_small_order() -> None:
    for encoded in SMALL_ORDER:
        point = decoded(encoded)
        for _ in range(3):
            point = add(point, point)
        assert (0, 1) == point


@pytest.mark.parametrize("weak", [*SMALL_ORDER, *NON_CANONICAL, bytes([1]) + bytes(30) + b"\x80"])
def test_a_weak_key_or_point_signs_nothing(weak: bytes) -> None:
    # For a key of small order, R = the identity and s = 0 fit about one message in eight.
    for data in (bytes([n]) * 32 for n in range(32)):
        assert not is_signed(weak, data, bytes([1]) + bytes(63))
    good = make_key(SEED).private.sign(bytes(32))
    assert not is_signed(bytes.fromhex(PUBLIC), bytes(32), weak + good[32:])


def test_a_signature_has_one_spelling() -> None:
    good = make_key(SEED).private.sign(bytes(32))
    key = bytes.fromhex(PUBLIC)
    assert is_signed(key, bytes(32), good)
    s = int.from_bytes(good[32:], "little") + L  # the same number modulo the group's order
    assert not is_signed(key, bytes(32), good[:32] + s.to_bytes(32, "little"))
    assert not is_signed(key, bytes(32), good + b"\0")
    assert not is_signed(key[:31], bytes(32), good)
    assert not is_signed(b"\2" + bytes(31), bytes(32), good)  # on no point of the curve


# --- proofs ----------------------------------------------------------------------------------------------------


@requirement("F13")
def test_every_proof_of_every_size_leads_to_the_root() -> None:
    for count in range(1, 40):
        leaves = [bytes([n]) * 32 for n in range(count)]
        for index, proof in enumerate(inclusion_proofs(leaves)):
            assert merkle_root(leaves) == proven_root(leaves[index], proof)
            assert merkle_root(leaves) != proven_root(leaves[index - 1], proof) or count == 1


@requirement("F13")
@pytest.mark.parametrize(
    "change",
    [
        {"leaf_index": 4},
        {"leaf_index": 7},
        {"leaf_index": -1},
        {"leaf_count": 9},
        {"leaf_count": 0},
        {"leaf_count": 2**70},
        {"path": ()},
        {"path": (InclusionStep("sha256:" + "A" * 64, True),) * 3},
        {"path": (InclusionStep("sha256:" + "0" * 64, True),) * 65, "leaf_count": 2**65},
        {"path": tuple(InclusionStep("sha256:", side) for side in (True, True, False))},
    ],
)
def test_a_proof_of_another_shape_leads_nowhere(change: dict[str, Any]) -> None:
    proof = replace(inclusion_proofs(vector_leaves())[3], **change)
    assert merkle_root(vector_leaves()) != proven_root(vector_leaves()[3], proof)


# --- signing and verifying -------------------------------------------------------------------------------------

KEY = make_key(SEED)
LINKS = (
    Provenance("file", "file:///r/a.py", "L1-2", digest(b"a"), "read", "us"),
    Provenance("git", "swh:1:cnt:00", "L1-2", digest(b"a")),
)
ANSWER = ContextQueryResult(
    (frame("snippet:b.py#f", "b\n"), frame("snippet:a.py#f", "a\n", LINKS), frame("doc:c.md#c", "c\n")), truncated=True
)


def signed(result: ContextQueryResult = ANSWER, *, each: bool = False) -> ContextQueryResult:
    return sign_result(result, KEY, "p", NOW, each=each)


def problems(result: ContextQueryResult, keys: dict[str, str] | str = PUBLIC, provider: str = "p") -> list[str]:
    return [finding.problem for finding in verify_result(result, provider, keys)]


@requirement("F6", "F11", "F12")
@pytest.mark.parametrize("each", [False, True])
def test_a_signed_answer_proves_every_frame(each: bool) -> None:
    result = signed(each=each)
    ids = [None, "snippet:b.py#f", "snippet:a.py#f", "doc:c.md#c"]
    assert [Finding(id) for id in ids] == verify_result(result, "p", PUBLIC)
    assert [Finding(id) for id in ids] == verify_result(result, "p", {KEY.key_id: PUBLIC})
    assert ANSWER == replace(result, frame_attestations=(), result_attestation=None)
    assert ["p"] * 3 == [entry.frame.provider_id for entry in result.frame_attestations]
    assert [0, 1, 2] == [
        entry.inclusion_proof.leaf_index for entry in result.frame_attestations if entry.inclusion_proof
    ]


def test_an_answer_without_frames_is_signed_too() -> None:
    result = signed(ContextQueryResult((), truncated=False))
    assert () == result.frame_attestations
    assert [""] == problems(result)


def test_signing_twice_gives_the_same_bytes() -> None:
    assert signed() == signed()
    reordered = replace(ANSWER, frames=ANSWER.frames[::-1])
    assert signed().result_attestation == signed(reordered).result_attestation


@requirement("F14")
def test_a_frame_without_digest_is_not_signed() -> None:
    with pytest.raises(Internal):
        signed(ContextQueryResult((frame("a", held=""),), truncated=False))


def tampered(frame: ContextFrame) -> list[ContextFrame]:
    """The frame with one thing changed, once for every thing a signature covers."""
    first, second = frame.provenance
    links = [
        replace(first, **{member: value})
        for member in ("type", "uri", "range", "digest", "method", "by")
        for value in ("x", "", None)
        if not (member == "type" and value is None)
    ]
    chains = [*((changed, second) for changed in links), (second, first), (first,), (first, second, second), ()]
    return [
        *(replace(frame, provenance=chain) for chain in chains),
        replace(frame, id="snippet:a.py#g"),
        replace(frame, content_digest=digest(b"x")),
        replace(frame, content_digest=digest(b"x\n"), content="x\n"),
        replace(frame, content="x\n"),
    ]


@pytest.mark.parametrize("each", [False, True])
def test_any_change_to_a_frame_is_caught_and_says_which(each: bool) -> None:
    result = signed(each=each)
    changes = tampered(ANSWER.frames[1])
    assert 25 == len(changes)
    for changed in changes:
        frames = (result.frames[0], changed, result.frames[2])
        found = verify_result(replace(result, frames=frames), "p", PUBLIC)
        assert ["", "", True] == [found[1].problem, found[3].problem, bool(found[2].problem)], changed
        if changed.content_digest == digest(changed.content.encode()):
            assert found[0].problem, changed


@requirement("F12")
@pytest.mark.parametrize("each", [False, True])
def test_an_added_or_removed_frame_is_caught(each: bool) -> None:
    result = signed(each=each)
    assert problems(replace(result, frames=result.frames[:2]))[0]
    added = problems(replace(result, frames=(*result.frames, frame("snippet:d.py#f", "d\n"))))
    assert added[0]
    assert "no attestation names this frame" == added[-1]
    other = signed(ContextQueryResult((frame("snippet:d.py#f", "d\n"),), truncated=False), each=each)
    moved = replace(
        result,
        frames=(*result.frames, *other.frames),
        frame_attestations=(*result.frame_attestations, *other.frame_attestations),
    )
    assert problems(moved)[0]  # a proof for another answer is none for this one


def test_any_change_to_the_evidence_is_caught() -> None:
    for each in (False, True):
        result = signed(each=each)
        assert result.result_attestation is not None
        for member, value in (
            ("signed_commitment", shown(bytes(32))),
            ("signature", "0" * 128),
            ("signature", result.result_attestation.signature.upper()),
            ("algorithm", "ed25519ph"),
            ("issued_at", "yesterday"),
        ):
            assert problems(replace(result, result_attestation=replace(result.result_attestation, **{member: value})))[
                0
            ]
        assert all(problems(replace(result, result_attestation=None))[1:])
        assert all(problems(replace(result, frame_attestations=()))[1:])
        for entry in result.frame_attestations:
            assert entry.inclusion_proof is not None
            longer = replace(entry, inclusion_proof=replace(entry.inclusion_proof, leaf_count=4))
            assert "the proof is of an answer of 4 frames" in problems(replace(result, frame_attestations=(longer,)))
        assert all(problems(result, make_key(bytes(32)).published.public_key))
        assert all(problems(result, PUBLIC.upper()))
        assert all(problems(result, {"key-other": PUBLIC}))
        assert problems(result, provider="q")[0]


def test_single_signatures_are_checked_one_by_one() -> None:
    result = signed(each=True)
    singly = replace(
        result,
        result_attestation=None,
        frame_attestations=tuple(replace(entry, inclusion_proof=None) for entry in result.frame_attestations),
    )
    assert ["", "", "", ""] == problems(singly)
    first, second, third = singly.frame_attestations
    assert second.attestation is not None
    crossed = replace(singly, frame_attestations=(replace(first, attestation=second.attestation), second, third))
    assert ["", "", "", "the frame is not the one that was signed"] == problems(crossed)
    bare = replace(singly, frame_attestations=(FrameAttestation(first.frame), second, third))
    assert ["", "", "", "the attestation has neither signature nor proof"] == problems(bare)


def test_evidence_for_a_frame_that_is_not_there_is_told() -> None:
    result = signed()
    stray = FrameAttestation(FrameId("p", "snippet:z.py#f", digest(b"z")))
    assert (
        "an attestation names a frame that is not in the answer"
        == problems(replace(result, frame_attestations=(*result.frame_attestations, stray)))[0]
    )
    assert "nothing in the answer is signed" == problems(ANSWER)[0]


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8")))))
def test_any_answer_verifies_as_it_was_signed(parts: list[tuple[str, str]]) -> None:
    frames = tuple(frame(id, content, LINKS[:index]) for index, (id, content) in enumerate(dict(parts).items()))
    assert [""] * (len(frames) + 1) == problems(signed(ContextQueryResult(frames, truncated=False)))


def test_a_saved_answer_is_read_again() -> None:
    envelope = msgspec.json.encode({"type": "frames", "id": "q1", "result": signed(), "more": [1]})
    assert [signed(), signed()] == read_answers(b'{"type":"handshake_ack"}\n' + envelope + b"\n\n" + envelope)
    for wrong in (b"{}", b"[]", b"\xff", b'{"type":"frames"}', b'{"type":"frames","result":{}}'):
        with pytest.raises(BadRequest, match="not a frames envelope"):
            read_answers(wrong)
    for nothing in (b"", b'{"type":"verified"}'):
        with pytest.raises(BadRequest, match="there is no frames envelope"):
            read_answers(nothing)


# --- key files -------------------------------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="no file modes here")


def reason(failure: pytest.ExceptionInfo[ProviderError]) -> str:
    return failure.value.reason


@posix
def test_a_new_key_is_for_its_owner_only(tmp_path: Path) -> None:
    path = str(tmp_path / "keys" / "signing.json")
    key = new_key(path)
    assert 0o600 == stat.S_IMODE(os.stat(path).st_mode)
    assert 0o700 == stat.S_IMODE(os.stat(tmp_path / "keys").st_mode)
    assert key.published == load_key(path).published
    assert key.published.key_id == "key-" + fingerprint(key.published.public_key)[7:23]


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("mine")
    with pytest.raises(ProviderError, match="exists") as failure:
        new_key(str(path))
    assert "key_exists" == reason(failure)
    assert "mine" == path.read_text()


@requirement("key-limits")
def test_rotation_makes_a_new_id_and_remembers_the_old_public_key(tmp_path: Path) -> None:
    path = str(tmp_path / "key")
    first = new_key(path)
    second = rotate_key(path)
    third = rotate_key(path)
    assert 3 == len({first.key_id, second.key_id, third.key_id})
    assert (second.published, first.published) == load_key(path).retired
    assert ["key"] == os.listdir(tmp_path)
    assert first.private.private_bytes_raw().hex() not in (tmp_path / "key").read_text()
    assert all(1 <= len(key.key_id.encode()) <= 128 for key in (first, second, third))


@posix
def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    new_key(str(path))
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        with pytest.raises(ProviderError, match="chmod 600") as failure:
            load_key(str(path))
        assert "key_permissions" == reason(failure)


def test_keys_do_not_live_in_the_repository(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    root = str(tmp_path / "repo")
    for path in (tmp_path / "repo" / "key", tmp_path / "link" / "key"):
        for act in (new_key, load_key, rotate_key):
            with pytest.raises(ProviderError) as failure:
                act(str(path), outside=[root])
            assert "key_inside_repository" == reason(failure)
    assert new_key(str(tmp_path / "repository"), outside=[root])


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"{}",
        b"not json",
        b'{"algorithm":"ed25519","key_id":"key-1","private_key":"zz"}',
        b'{"algorithm":"ed25519","key_id":"key-1","private_key":"0707"}',
        b'{"algorithm":"rsa","key_id":"key-1","private_key":"' + SEED.hex().encode() + b'"}',
        b'{"algorithm":"ed25519","key_id":"key-1","private_key":"' + SEED.hex().encode() + b'"}',
    ],
)
def test_what_is_no_key_file_is_told_without_its_contents(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(contents)
    path.chmod(0o600)
    with pytest.raises(ProviderError) as failure:
        load_key(str(path))
    assert "key_file" == reason(failure)
    assert SEED.hex() not in failure.value.message


@posix
def test_files_that_cannot_be_opened_are_told(tmp_path: Path) -> None:
    with pytest.raises(ProviderError) as failure:
        load_key(str(tmp_path / "none"))
    assert "key_missing" == reason(failure)
    (tmp_path / "file").write_text("")
    for act in (new_key, load_key):
        with pytest.raises(ProviderError) as failure:
            act(str(tmp_path / "file" / "key"))
        assert reason(failure) in ("key_file", "key_missing")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ProviderError, match="is not a file") as failure:
            load_key(str(path))
        assert "key_file" == reason(failure)


def test_a_failed_rotation_leaves_the_key_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "key")
    key = new_key(path)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ProviderError) as failure:
        rotate_key(path)
    assert "key_file" == reason(failure)
    assert ["key"] == os.listdir(tmp_path)
    assert key.key_id == load_key(path).key_id


def test_a_key_never_prints_its_secret() -> None:
    assert SEED.hex() not in repr(KEY)
    assert repr(SEED) not in repr(KEY)
    assert isinstance(KEY, Key)


def test_a_fingerprint_is_of_the_key_bytes() -> None:
    assert digest(bytes.fromhex(PUBLIC)) == fingerprint(PUBLIC)
    for wrong in ("", PUBLIC.upper(), PUBLIC[:-1], PUBLIC + "0"):
        with pytest.raises(BadRequest):
            fingerprint(wrong)


# --- as it is served -------------------------------------------------------------------------------------------


@pytest.fixture
def made() -> Made:
    return make_repo(
        [("2026-01-01", {"a.py": "def alpha():\n    return 1\n", "b.py": "def beta_alpha():\n    pass\n"})]
    )


@posix
@requirement("attest-keys", "attest-bytes", "F6", "F11", "F12", "F13", "D5", "sign-last")
@pytest.mark.parametrize("each", [(), ("--sign-each",)])
def test_what_is_served_proves_itself_and_is_otherwise_the_same(
    made: Made, tmp_path: Path, connect: Callable[..., Connection], each: tuple[str, ...]
) -> None:
    key = new_key(str(tmp_path / "key.json"))
    signing = connect(repository(made.path, "--name", "ours", "--sign", str(tmp_path / "key.json"), *each))
    ack, answer = signing.ask(HANDSHAKE), signing.ask(query("alpha"))
    assert [msgspec.to_builtins(key.published)] == ack["attester_keys"]
    (result,) = read_answers(encode(answer))
    assert 2 == len(result.frames)
    assert [Finding(id) for id in (None, *(frame.id for frame in result.frames))] == verify_result(
        result, "ours", {entry["key_id"]: entry["public_key"] for entry in ack["attester_keys"]}
    )
    assert [bool(each)] * 2 == [entry.attestation is not None for entry in result.frame_attestations]
    assert [True] * 2 == [entry.inclusion_proof is not None for entry in result.frame_attestations]
    plain = connect(repository(made.path, "--name", "ours"))
    plain.ask(HANDSHAKE)
    (unsigned,) = read_answers(encode(plain.ask(query("alpha"))))
    assert unsigned == replace(result, frame_attestations=(), result_attestation=None)


@posix
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--sign", "/nonexistent/key.json"], "there is no key file"),
        (["--sign", ".git/key.json"], "lies in the repository; keys live elsewhere"),
        (["--sign-each"], "--sign-each means nothing without --sign"),
    ],
)
def test_a_provider_that_cannot_sign_as_told_does_not_serve(made: Made, arguments: list[str], told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "repo_provider", "serve", *arguments], cwd=made.path, input=encode(HANDSHAKE) + b"\n",
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"}, capture_output=True,
        timeout=60,
    )  # fmt: skip
    assert (2, b"") == (done.returncode, done.stdout)
    assert told in done.stderr.decode()
    assert 1 == len(done.stderr.splitlines())
