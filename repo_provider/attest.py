"""Frames that prove who served them: commitments, Merkle proofs and Ed25519 signatures (section 6.5).

Pure functions over wire values, and the one file a signing key lives in. It signs what it is handed and never
looks at a repository; a session signs with `sign_result` what it is about to send, the command line calls the rest.
Nothing here is on the way of a provider that signs nothing: `cryptography` is imported where a key is first touched.

Rules kept: F6, F7 and F11-F14, the exact shape of proofs, and for a verifier the strictness that section 6.5.4 asks.
What a signature covers of a frame is its id, its digest and its provenance, under the provider's declared name (D5);
content is covered through the digest, which is why `verify_result` recomputes that too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from repo_provider.errors import BadRequest, Internal, Unavailable
from repo_provider.protocol import (
    AttesterKey,
    ContextFrame,
    ContextQueryResult,
    Digest,
    FrameAttestation,
    FrameId,
    InclusionProof,
    InclusionStep,
    Provenance,
    ProvenanceAttestation,
    digest,
    parse_instant,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ALGORITHM = "ed25519"

# --- commitments -----------------------------------------------------------------------------------------------

_GENESIS = hashlib.sha256(b"contextgraph/attest/1/genesis").digest()


def chain_head(links: Sequence[Provenance]) -> bytes:
    """The hash that stands for these links in this order."""
    head = _GENESIS
    for link in links:
        head = hashlib.sha256(b"contextgraph/attest/1/link" + head + encode_link(link)).digest()
    return head


def encode_link(link: Provenance) -> bytes:
    """The bytes of one link; an empty string is not an absent one."""
    fields = (link.uri, link.range, link.digest, link.method, link.by)
    return _string(link.type) + b"".join(map(_optional, fields))


def _string(text: str) -> bytes:
    data = text.encode("utf-8")
    return len(data).to_bytes(4, "big") + data  # bytes, neither characters nor UTF-16 units


def _optional(text: str | None) -> bytes:
    return b"\0" if text is None else b"\1" + _string(text)


def commitment(provider: str, frame: ContextFrame) -> bytes:
    """F7: the 32 bytes that stand for a frame served under a declared name."""
    identity = _string(provider) + _string(frame.id) + _optional(frame.content_digest)
    return hashlib.sha256(b"contextgraph/attest/1/frame" + identity + chain_head(frame.provenance)).digest()


# --- Merkle trees (RFC 6962's shape) ---------------------------------------------------------------------------

_MOST_STEPS = 64


def merkle_root(commitments: Sequence[bytes]) -> bytes:
    """F12: the root over commitments that are already in canonical order."""
    if not commitments:
        return hashlib.sha256(b"contextgraph/attest/1/merkle-empty").digest()
    if len(commitments) == 1:
        return _leaf(commitments[0])
    split = _split(len(commitments))
    return _node(merkle_root(commitments[:split]), merkle_root(commitments[split:]))


def inclusion_proofs(commitments: Sequence[bytes]) -> list[InclusionProof]:
    """F13: how each commitment leads to the root, leaf upward."""
    _, paths = _proven(commitments)
    return [InclusionProof(index, len(commitments), tuple(path)) for index, path in enumerate(paths)]


def _proven(commitments: Sequence[bytes]) -> tuple[bytes, list[list[InclusionStep]]]:
    """The root, and for every leaf the steps to it."""
    if len(commitments) < 2:
        return merkle_root(commitments), [[] for _ in commitments]
    split = _split(len(commitments))
    (left, paths), (right, more) = _proven(commitments[:split]), _proven(commitments[split:])
    for path in paths:
        path.append(InclusionStep(_shown(right), False))
    for path in more:
        path.append(InclusionStep(_shown(left), True))
    return _node(left, right), paths + more


def proven_root(leaf: bytes, proof: InclusionProof) -> bytes | None:
    """The root a proof leads to; None for a proof whose shape is not the one its index and count give."""
    sides = _sides(proof.leaf_index, proof.leaf_count)
    if sides is None or sides != [step.sibling_is_left for step in proof.path]:
        return None
    node = _leaf(leaf)
    for step in proof.path:
        sibling = _unshown(step.sibling)
        if sibling is None:
            return None
        node = _node(sibling, node) if step.sibling_is_left else _node(node, sibling)
    return node


def _sides(index: int, count: int) -> list[bool] | None:
    """Leaf upward, whether the sibling stands left; None where there is no such leaf."""
    if not 0 <= index < count or count > 2**_MOST_STEPS:
        return None
    sides = []
    while count > 1:
        split = _split(count)
        sides.append(index >= split)
        index, count = (index - split, count - split) if index >= split else (index, split)
    return sides[::-1]


def _split(count: int) -> int:
    """The largest power of two below a count."""
    return 1 << (count - 1).bit_length() - 1


def _leaf(commitment: bytes) -> bytes:
    return hashlib.sha256(b"\0" + commitment).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _shown(raw: bytes) -> Digest:
    return Digest(f"sha256:{raw.hex()}")


_DIGEST = re.compile("sha256:([0-9a-f]{64})")


def _unshown(text: str) -> bytes | None:
    match = _DIGEST.fullmatch(text)
    return bytes.fromhex(match[1]) if match else None


# --- keys ------------------------------------------------------------------------------------------------------


class Key(Struct, frozen=True):
    """A signing key. `retired` are the public halves of those it took the place of, newest first."""

    key_id: str
    private: Ed25519PrivateKey
    retired: tuple[AttesterKey, ...] = ()

    @property
    def published(self) -> AttesterKey:
        """What `handshake_ack` says of it."""
        return AttesterKey(self.key_id, ALGORITHM, self.private.public_key().public_bytes_raw().hex())


class _KeyFile(Struct, frozen=True):
    algorithm: str
    key_id: str
    private_key: str
    retired: tuple[AttesterKey, ...] = ()


def make_key(seed: bytes, retired: tuple[AttesterKey, ...] = ()) -> Key:
    """The key of 32 secret bytes. Its id comes from its public half, so no id ever has new bytes under it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.from_private_bytes(seed)
    public = private.public_key().public_bytes_raw()
    return Key("key-" + hashlib.sha256(public).hexdigest()[:16], private, retired)


def fingerprint(public_key: str) -> Digest:
    """What an operator compares: the digest of a public key's bytes, given in hex. Raises BadRequest for no key."""
    raw = _public_bytes(public_key)
    if raw is None:
        raise BadRequest("a public key is 64 lowercase hex digits", reason="invalid_key")
    return digest(raw)


def new_key(path: str, *, outside: Sequence[str] = ()) -> Key:
    """Makes a key and its file, which must be new and in none of the folders of `outside`.

    Raises Unavailable (`key_exists`, `key_inside_repository`, `key_file`).
    """
    _refuse_inside(path, outside)
    key = make_key(secrets.token_bytes(32))
    try:
        if os.path.lexists(path):
            raise Unavailable(f"{path} exists already; `key rotate` replaces its key", reason="key_exists")
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
        _write(path, _contents(key))
    except OSError as error:
        raise Unavailable(f"cannot write the key file {path}: {error.strerror}", reason="key_file") from None
    return key


def load_key(path: str, *, outside: Sequence[str] = ()) -> Key:
    """The key of a file that nobody but its owner may read.

    Raises Unavailable (`key_missing`, `key_permissions`, `key_inside_repository`, `key_file`).
    """
    _refuse_inside(path, outside)
    try:
        contents = msgspec.json.decode(_read(path), type=_KeyFile)
        key = make_key(bytes.fromhex(contents.private_key), contents.retired)
    except FileNotFoundError:
        raise Unavailable(f"there is no key file {path}; `key new` makes one", reason="key_missing") from None
    except OSError as error:
        raise Unavailable(f"cannot read the key file {path}: {error.strerror}", reason="key_file") from None
    except (msgspec.MsgspecError, ValueError):  # nothing of the contents may reach a message
        raise Unavailable(f"{path} is not a key file", reason="key_file") from None
    if (contents.algorithm, contents.key_id) != (ALGORITHM, key.key_id):
        raise Unavailable(f"{path} is not a key file of this program", reason="key_file")
    return key


def rotate_key(path: str, *, outside: Sequence[str] = ()) -> Key:
    """Puts a new key in the place of a file's, whose public half stays in the list of the retired ones."""
    old = load_key(path, outside=outside)
    key = make_key(secrets.token_bytes(32), (old.published, *old.retired))
    beside = f"{path}.{secrets.token_hex(8)}"
    try:
        _write(beside, _contents(key))
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise Unavailable(f"cannot write the key file {path}: {error.strerror}", reason="key_file") from None
    return key


def _contents(key: Key) -> bytes:
    file = _KeyFile(ALGORITHM, key.key_id, key.private.private_bytes_raw().hex(), key.retired)
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


def _write(path: str, data: bytes) -> None:
    """A new file, 0600 from its first moment, on the disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)


_LARGEST_FILE = 2**20


def _read(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe must not hold us
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise Unavailable(f"{path} is not a file", reason="key_file")
        if os.name == "posix" and mode & 0o077:
            raise Unavailable(f"others may read {path}; `chmod 600` it, or rotate the key", reason="key_permissions")
        return os.read(handle, _LARGEST_FILE)
    finally:
        os.close(handle)


def _refuse_inside(path: str, folders: Sequence[str]) -> None:
    real = os.path.realpath(path)
    for folder in map(os.path.realpath, folders):
        if real == folder or real.startswith(folder.rstrip(os.sep) + os.sep):
            raise Unavailable(f"{path} lies in the repository; keys live elsewhere", reason="key_inside_repository")


# --- signing ---------------------------------------------------------------------------------------------------


def sign_result(
    result: ContextQueryResult, key: Key, provider: str, issued_at: str, *, each: bool = False
) -> ContextQueryResult:
    """The answer with a signature over its root and, for every frame, the proof that leads there.

    With `each`, every frame has its own signature as well, for hosts that pass frames on singly. Nothing else in
    the answer changes, and it must not change afterwards. Raises Internal for a frame without digest (F14).
    """
    for frame in result.frames:
        if _unshown(frame.content_digest) is None:
            raise Internal("a frame without content_digest cannot be signed", reason="no_digest")
    frames, commitments = _canonical(provider, result.frames)
    entries = []
    for frame, own, proof in zip(frames, commitments, inclusion_proofs(commitments), strict=True):
        single = _signed(own, key, provider, issued_at) if each else None
        entries.append(FrameAttestation(_identity(provider, frame), single, proof))
    root = _signed(merkle_root(commitments), key, provider, issued_at)
    return replace(result, frame_attestations=tuple(entries), result_attestation=root)


def _canonical(provider: str, frames: Sequence[ContextFrame]) -> tuple[list[ContextFrame], list[bytes]]:
    """F12: by name, id and digest. One name serves a whole answer, so the last two decide."""
    ordered = sorted(frames, key=lambda frame: (frame.id, frame.content_digest))
    return ordered, [commitment(provider, frame) for frame in ordered]


def _signed(data: bytes, key: Key, provider: str, issued_at: str) -> ProvenanceAttestation:
    signature = key.private.sign(data).hex()  # over the 32 raw bytes
    return ProvenanceAttestation(_shown(data), key.key_id, ALGORITHM, provider, signature, issued_at)


# --- verifying -------------------------------------------------------------------------------------------------


class Finding(Struct, frozen=True):
    """What became of one frame, or with `frame` None of the answer as a whole; `problem` is "" where it is proven."""

    frame: str | None
    problem: str = ""


class _Line(Struct, frozen=True):
    type: str
    result: msgspec.Raw | UnsetType = UNSET


def read_answers(data: bytes) -> list[ContextQueryResult]:
    """The results of the `frames` envelopes in a saved session, one envelope a line.

    Raises BadRequest (`not_an_answer`) where a line is no envelope or none is an answer.
    """
    try:
        lines = [msgspec.json.decode(line, type=_Line) for line in data.split(b"\n") if line.strip()]
        found = [line.result for line in lines if line.type == "frames"]
        results = [msgspec.json.decode(b"{}" if one is UNSET else one, type=ContextQueryResult) for one in found]
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f"not a frames envelope: {error}", reason="not_an_answer") from None
    if not results:
        raise BadRequest("there is no frames envelope to check", reason="not_an_answer")
    return results


Keys: TypeAlias = Mapping[str, str] | str
"""The public keys a verifier trusts, in hex: by key id, or one that is used whatever id is named."""


def verify_result(result: ContextQueryResult, provider: str, keys: Keys) -> list[Finding]:
    """What the signatures of an answer prove: one finding for the answer, then one for each frame as they came."""
    root = _Root(result, keys)
    known = [_identity(provider, frame) for frame in result.frames]
    findings = [Finding(None, _answer_problem(result, provider, known, root))]
    for frame, identity in zip(result.frames, known, strict=True):
        entries = [entry for entry in result.frame_attestations if entry.frame == identity]
        own = commitment(provider, frame)
        problems = [_entry_problem(entry, own, root, keys) for entry in entries]
        findings.append(Finding(frame.id, _frame_problem(frame, problems)))
    return findings


class _Root:
    """The signed root of an answer: what it is, how many frames must be under it, and what is wrong with it."""

    def __init__(self, result: ContextQueryResult, keys: Keys) -> None:
        signed = result.result_attestation
        self.count = len(result.frames)
        self.commitment = None if signed is None else _unshown(signed.signed_commitment)
        self.problem = "the proof leads to no signed root" if signed is None else _signature_problem(signed, keys)


def _identity(provider: str, frame: ContextFrame) -> FrameId:
    return FrameId(provider, frame.id, frame.content_digest)


def _answer_problem(result: ContextQueryResult, provider: str, known: Sequence[FrameId], root: _Root) -> str:
    if any(entry.frame not in known for entry in result.frame_attestations):
        return "an attestation names a frame that is not in the answer"
    if result.result_attestation is None:
        signed_singly = any(entry.attestation is not None for entry in result.frame_attestations)
        return "" if signed_singly else "nothing in the answer is signed"
    if root.problem:
        return root.problem
    _, commitments = _canonical(provider, result.frames)
    return "" if merkle_root(commitments) == root.commitment else "the frames are not those that were signed"


def _frame_problem(frame: ContextFrame, problems: Sequence[str]) -> str:
    if digest(frame.content.encode("utf-8")) != frame.content_digest:
        return "the content does not have the digest the frame states"
    if not problems:
        return "no attestation names this frame"
    return next(filter(None, problems), "")


def _entry_problem(entry: FrameAttestation, own: bytes, root: _Root, keys: Keys) -> str:
    signed, proof = entry.attestation, entry.inclusion_proof
    if signed is not None:
        problem = _signature_problem(signed, keys)
        if problem or signed.signed_commitment != _shown(own):
            return problem or "the frame is not the one that was signed"
    if proof is None:
        return "" if signed is not None else "the attestation has neither signature nor proof"
    if root.problem:
        return root.problem
    if proof.leaf_count != root.count:
        return f"the proof is of an answer of {proof.leaf_count} frames"
    return "" if proven_root(own, proof) == root.commitment else "the frame is not the one the proof was made for"


def _signature_problem(signed: ProvenanceAttestation, keys: Keys) -> str:
    """Of a signature over the commitment it states; whether that is the right one is for the caller to say."""
    key = keys if isinstance(keys, str) else keys.get(signed.key_id)
    if key is None:
        return f"no trusted key has the id {signed.key_id!r}"
    if signed.algorithm != ALGORITHM:
        return f"the algorithm {signed.algorithm!r} is not known here"
    public, data = _public_bytes(key), _unshown(signed.signed_commitment)
    if public is None:
        return "the trusted key is not 64 lowercase hex digits"
    if data is None or not _SIGNATURE.fullmatch(signed.signature) or not _is_instant(signed.issued_at):
        return "the attestation is malformed"
    return "" if is_signed(public, data, bytes.fromhex(signed.signature)) else "the signature is not by the trusted key"


_SIGNATURE = re.compile("[0-9a-f]{128}")
_PUBLIC_KEY = re.compile("[0-9a-f]{64}")


def _is_instant(text: str) -> bool:
    try:
        parse_instant(text)
    except BadRequest:
        return False
    return True


def _public_bytes(text: str) -> bytes | None:
    return bytes.fromhex(text) if _PUBLIC_KEY.fullmatch(text) else None


_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
# The y of the eight points P with 8P = 0. A key or an R with one of them fits signatures nobody made.
_SMALL_ORDER = frozenset(
    {
        0,
        1,
        _P - 1,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        _P - 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    }
)


def is_signed(public_key: bytes, data: bytes, signature: bytes) -> bool:
    """Strict Ed25519: no small-order and no non-canonical key or R, s below the group's order, no cofactor."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if len(public_key) != 32 or len(signature) != 64:
        return False
    if not _is_strict_point(public_key) or not _is_strict_point(signature[:32]):
        return False
    if int.from_bytes(signature[32:], "little") >= _L:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _is_strict_point(encoded: bytes) -> bool:
    y = int.from_bytes(encoded, "little") & 2**255 - 1  # the top bit is the sign of x
    return y < _P and y not in _SMALL_ORDER
