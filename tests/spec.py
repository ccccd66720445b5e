"""Every rule of contextgraph/1.0 that binds a provider, and our own promises, as rows that tests point at.

    @requirement("B3", "H4")
    def test_...

`test_spec_coverage.py` fails on a row no test names and on a name that is no row. Ids are the specification's own
where it has one. Two families share a letter there and here: `P1` to `P7` are this provider's promises, `spec-P1` to
`spec-P5` the specification's rules on representations. Rules the specification leaves without an anchor have a word.
`python -m tests.spec` prints what is still open.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

_Test = TypeVar("_Test", bound=Callable[..., object])

REQUIREMENTS: dict[str, str] = {
    # framing and envelopes
    "line": "stdio: exactly one envelope per LF-terminated line, UTF-8, no raw newline inside",
    "stdout": "stdout carries nothing but envelopes; diagnostics go to stderr",
    "http": "HTTP: one envelope as the request body, one as the response body",
    "shape": "every emitted envelope has exactly the members of its type; optional ones are omitted, not null",
    "U1": "unknown members anywhere are ignored, never a reason to reject",
    "unknown-type": "an unknown request gets bad_request; an unrecognised notification without id is ignored",
    "handshake-first": "no query payload moves before the handshake: bad_request",
    "null": "members the schema lets be null are taken as absent",
    "U2": "kinds of a later minor are taken for kinds not served",
    "U3": "vendor-specific rel, egress scope and error code are vendor:name; unprefixed names are the protocol's",
    "U4": "members never change their meaning within the family",
    # handshake
    "H1": "handshake is answered with handshake_ack of the host's major family; the -draft spelling interoperates",
    "H2": "provider.name and provider.version are not empty",
    "H3": "another family gets error incompatible_version, never a hang",
    "H4": "an id is echoed verbatim on the frames or error that answers it; replies with ids may come in any order",
    "handshake-again": "a second handshake on one connection is answered again",
    "verify-id": "a verify may carry an id, which is echoed; none is required",
    # data flow
    "C3": "egress is declared when data leaves the machine; reads and writes say what is seen and kept",
    "C5": "no off-machine scope beside egress false; local-only for a purely local provider",
    # grammars
    "F4": "timestamps are real calendar instants, YYYY-MM-DDTHH:MM:SS(.d+)?Z",
    "as-of-form": "a malformed as_of is a bad request",
    "F5": "every file link carries sha256: and 64 lowercase hex digits",
    "F17": "file ranges follow the line-range grammar, address raw bytes by LF, and end inside the resource",
    "digested-bytes": "a link's digest is over the exact stored bytes of its uri and range",
    "E1": "an embedding nobody asked for is ignored",
    # query
    "Q1": "kinds is a hard filter; none served is unsupported_kind or no frames",
    "Q2": "no frame's half-open window excludes as_of; compared as instants, fractions too",
    "anchors": "anchors bias relevance",
    "spec-P5": "the first supported representation preference; absent means full; else unsupported_representation",
    "B1": "the sum of token_cost is at most max_tokens",
    "B3": "token_cost is ceil(UTF-8 bytes of content / 4), exactly",
    "B4": "at most max_frames frames",
    "truncated": "more candidates than fit: truncated is true; costs are never cut, frames are",
    "zero-budget": "max_frames 0 and max_tokens 0 are legal: no frames",
    # frames
    "F1": "score is between 0 and 1",
    "F2": "title is not empty when trimmed",
    "F3": "citation_label is not empty when trimmed, a human label and not a bare id",
    "F10": "score orders frames within one provider only",
    "kind": "kind is one of the seven base kinds and one that was declared",
    "provenance-order": "provenance links are ordered closest to the source first",
    "stable-id": "frame ids are stable across queries and never name the query",
    "D1": "content_digest is sha256 over the exact inline content bytes",
    "D2": "one identity never has two contents",
    "D3": "every frame carries a content_digest",
    "D5": "the provider id on the wire is always the declared provider.name",
    "spec-P1": "full frames carry content and none of content_ref, transform, canonical_content_hash",
    "spec-P2": "compact frames carry all five members; none are served, so none are advertised",
    "spec-P3": "reference frames are never returned over stdio or HTTP",
    "spec-P4": "token_cost covers the inline bytes only; canonical_token_cost goes with a real tokenizer_ref",
    "resolve": "representations other than full are not advertised without resolve",
    "G1": "every relation has a display_name",
    "G2": "every relation has a target_uri",
    "G3": "with graph declared: at least one anchored frame when there is one to serve",
    "G4": "with graph declared: anchored frames rank first",
    "R3": "frame content is evidence, never written as instructions",
    "no-merge": "no two frames of one answer share a digest or a file link of equal uri and range",
    # verify
    "V1": "verify and verified carry identities and digests, never bodies",
    "V2": "each verify is answered with verified",
    "V3": "status is valid, stale, gone or unknown; replacement_digest only with stale",
    "V5": "a foreign provider id is unknown and never rejects the request",
    "verify-echo": "each identity is echoed whole, the absence of its digest included",
    "verify-valid": "an existing frame with an equal digest is valid",
    "verify-stale": "an existing frame with any other digest string is stale, with the current digest",
    "verify-gone": "a source that is gone is gone",
    "verify-unknown": "no digest presented, or a frame id never served: unknown",
    # attestation
    "attest-none": "signing nothing: no keys published, no evidence emitted",
    "attest-keys": "keys are published in the handshake when answers are signed, and only then",
    "attest-bytes": "commitments, chains and roots are built byte for byte as section 6.5 says",
    "F6": "evidence is detached from frames, in the result only",
    "F7": "signed_commitment is sha256: and the commitment's 64 hex digits",
    "F11": "each entry names a frame of the same answer by its full identity",
    "F12": "the root is over exactly the returned frames",
    "F13": "an inclusion proof recomputes the root and has the shape the split gives",
    "F14": "a signed frame has a content_digest",
    "sign-last": "signing comes after all filtering and cutting",
    # errors
    "X1": "every error has a code and a message that is not empty",
    "bad_request": "malformed lines, missing payloads, wrong-typed members",
    "unsupported_kind": "none of the kinds is served",
    "unsupported_representation": "the representation is not advertised",
    "incompatible_version": "the handshake's family differs",
    "budget_unsatisfiable": "the budget is too small for any meaningful frame",
    "unavailable": "overloaded for now, or the repository cannot be read",
    "shutting_down": "the provider is tearing down",
    "internal": "a fault of the provider's own, told without source text or paths",
    "R1": "no line ends the process; a request with an id is always answered",
    "R2": "shutdown ends the process cleanly, and so does the end of input",
    # HTTP
    "http-errors": "protocol errors are 200 with an error envelope; an unreadable body is 400 with one",
    "http-shutdown": "shutdown is 204, ends its exchange only, and may come many times",
    "http-auth": "a bearer credential may be required (401), and is never logged",
    # limits
    "reply-limit": "replies stay below the 16 MiB a host takes",
    "request-limit": "requests up to 16 MiB are served, longer ones answered and resynchronised",
    "handshake-time": "the acknowledgement waits for no index and no heavy import",
    "shutdown-time": "gone within two seconds of shutdown, children too",
    "u32": "max_frames, max_tokens and costs are u32",
    "key-limits": "at most 16 keys, key_id of 1 to 128 bytes",
    "host-environment": "works with nothing but PATH and HOME in the environment",
    # our own promises
    "P1": "same state, same answer: cold store, warm store and no store give equal bytes",
    "P2": "exact bytes: content is a run of whole source lines, digests are theirs",
    "P3": "true in time: every window contains as_of",
    "P4": "stateless verify: a fresh process gives the same verdict",
    "P5": "always answers: one answer per request, inside its deadline",
    "P6": "nothing leaves: no network, none of its code runs, nothing is written inside it, no query is kept",
    "P7": "nothing lost: any crash or damage of the store costs time, never an answer",
}

GAPS: dict[str, str] = {
    # row -> which tests will show it
}


def requirement(*ids: str) -> Callable[[_Test], _Test]:
    """Marks a test as showing these rows."""
    unknown = [id for id in ids if id not in REQUIREMENTS]
    if unknown:
        raise LookupError(f"no such rows in tests/spec.py: {', '.join(unknown)}")
    return pytest.mark.requirement(*ids)


def shown() -> dict[str, list[str]]:
    """Row -> the tests that name it."""
    return named_by("requirement")


def named_by(marker: str) -> dict[str, list[str]]:
    """What a decorator is given -> the tests it stands on, read from the sources: whatever subset is being run."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        for test, row in _named(ast.parse(path.read_bytes()), marker):
            found.setdefault(row, []).append(f"{path.name}::{test}")
    return found


def _named(tree: ast.Module, marker: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        for call in getattr(node, "decorator_list", ()):
            if isinstance(call, ast.Call) and getattr(call.func, "id", getattr(call.func, "attr", "")) == marker:
                for argument in call.args:
                    yield getattr(node, "name", "?"), str(ast.literal_eval(argument))


def main() -> None:
    tests = shown()
    for id, text in REQUIREMENTS.items():
        if id not in tests:
            print(f"open    {id}: {text}  [{GAPS.get(id, 'NO ROW IN GAPS')}]")
    for id in GAPS:
        if id in tests:
            print(f"closed  {id}: {', '.join(tests[id])}")


if __name__ == "__main__":
    main()
