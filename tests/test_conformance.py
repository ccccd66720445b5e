"""What the public conformance suite asks of a provider, check by check, over a real pipe as its runner asks it.

Our own words for the fourteen checks of contextgraph/1.0; each test names the one it stands for. The provider under
test serves a made repository in a process with a host's environment: PATH and HOME.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
import pytest

from repo_provider.attest import commitment, is_signed, new_key, proven_root
from repo_provider.model import Text
from repo_provider.protocol import ContextFrame, InclusionProof, parse_instant, parse_range
from tests.connect import checked
from tests.repos import Content, Made, make_repo
from tests.spec import requirement

SAMPLE: dict[str, Any] = {
    "goal": "conformance probe: return your most relevant frames",
    "query_text": "conformance probe",
    "max_frames": 8,
    "max_tokens": 4096,
}
DIGEST = re.compile("sha256:[0-9a-f]{64}")


class Host:
    """One spawned provider, spoken to in lock-step, past the handshake."""

    def __init__(self, made: Made, home: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "repo_provider", "serve", "-C", str(made.path), "--deadline", "0", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "HOME": str(home)},
            cwd=home,
            start_new_session=True,
        )
        self.ack = self.ask({"type": "handshake", "protocol_version": "contextgraph/1.0"})

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return dict(checked(line.rstrip(b"\n")))

    def ask(self, envelope: dict[str, Any]) -> dict[str, Any]:
        self.send(json.dumps(envelope).encode())
        return self.receive()

    def query(self, **changes: object) -> dict[str, Any]:
        reply = self.ask({"type": "query", "query": {**SAMPLE, **changes}})
        assert "frames" == reply["type"], reply
        result: dict[str, Any] = reply["result"]
        return result

    def verify(self, frames: list[dict[str, Any]], suffix: str = "") -> list[str]:
        name = self.ack["provider"]["name"]
        asked = [
            {"provider_id": name, "frame_id": frame["id"], "content_digest": frame["content_digest"] + suffix}
            for frame in frames
        ]
        verdicts = self.ask({"type": "verify", "request": {"frames": asked}})["response"]["verdicts"]
        assert asked == [verdict["frame"] for verdict in verdicts]
        return [verdict["status"] for verdict in verdicts]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


PROBE = '''"""A conformance probe."""


def probe(frames):
    """Return the most relevant."""
    return sorted(frames)
'''


@pytest.fixture(scope="module")
def made() -> Made:
    files: dict[str | bytes, Content] = {
        "src/probe.py": PROBE,
        "src/runner.py": "from probe import probe\n\n\ndef run():\n    return probe([])\n",
        "README.md": "# Conformance\n\nThe probe returns relevant frames.\n",
    }
    return make_repo([("2026-06-01", files), ("2026-09-01", {"src/probe.py": PROBE + "\n# later\n"})])


@pytest.fixture(scope="module")
def host(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    opened = Host(made, tmp_path_factory.mktemp("home"))
    yield opened
    opened.close()


@requirement("H1", "H2")
def test_check_1_handshake(host: Host) -> None:
    assert "contextgraph/1" == host.ack["protocol_version"].split(".")[0]
    assert host.ack["provider"]["name"].strip()
    assert host.ack["provider"]["version"].strip()


@requirement("C5")
def test_check_2_consent_scope(host: Host) -> None:
    flow = host.ack["provider"]["data_flow"]
    assert (False, ["local-only"]) == (flow["egress"], flow["egress_scopes"])


@requirement("F1", "F2", "F3", "F4", "F5", "F17", "D1", "spec-P1", "spec-P2", "spec-P3", "resolve", "kind")
def test_check_3_frame_validity(host: Host) -> None:
    frames = host.query()["frames"]
    assert frames
    for frame in frames:
        assert 0 <= frame["score"] <= 1
        assert frame["title"].strip()
        assert frame["citation_label"].strip()
        assert not {"content_ref", "transform", "canonical_content_hash", "representation"} & set(frame)
        assert DIGEST.fullmatch(frame["content_digest"])
        for link in frame["provenance"]:
            if link["type"] == "file":
                assert DIGEST.fullmatch(link["digest"])
                assert parse_range(link["range"]) is not None
        for bound in ("valid_from", "valid_to"):
            assert bound not in frame or parse_instant(frame[bound])
    assert len({frame["id"] for frame in frames}) == len(frames)
    assert not {"resolve", "representations"} & set(host.ack["capabilities"])


@requirement("verify-valid", "verify-stale", "V3")
def test_check_4_verify_honesty(host: Host) -> None:
    frames = host.query()["frames"]
    assert {"valid"} == set(host.verify(frames))
    assert {"stale"} == set(host.verify(frames, "-contextgraph-conformance-mutated"))


@requirement("B1", "B3", "B4")
def test_check_5_budget_honesty(host: Host) -> None:
    frames = host.query()["frames"]
    assert [-(-len(frame["content"].encode()) // 4) for frame in frames] == [frame["token_cost"] for frame in frames]
    assert 4096 >= sum(frame["token_cost"] for frame in frames)
    assert 8 >= len(frames)


@requirement("Q2")
def test_check_6_as_of_temporal(host: Host) -> None:
    for pin in ("2026-07-01T00:00:00Z", "2026-10-01T00:00:00Z"):
        frames = host.query(as_of=pin)["frames"]
        assert frames
        for frame in frames:
            assert parse_instant(frame.get("valid_from", pin)) <= parse_instant(pin)
            assert "valid_to" not in frame or parse_instant(pin) < parse_instant(frame["valid_to"])


@requirement("Q1")
def test_check_7_kinds_filter(host: Host) -> None:
    for kind in host.ack["capabilities"]["query"]["kinds"]:
        assert {kind} >= {frame["kind"] for frame in host.query(kinds=[kind])["frames"]}


def test_check_8_anchor_relevance(host: Host) -> None:
    base = host.query()["frames"]
    targets = [relation["target_uri"] for frame in base for relation in frame.get("relations", ())]
    for anchor in (targets or [])[:1] + [frame["uri"] for frame in base]:
        frames = host.query(anchors=[anchor])["frames"]
        reached = [
            anchor in (frame["uri"], *(relation["target_uri"] for relation in frame.get("relations", ())))
            for frame in frames
        ]
        assert reached[0]


@requirement("digested-bytes")
def test_check_9_provenance_fixture_consistency(host: Host) -> None:
    links = [link for frame in host.query()["frames"] for link in frame["provenance"] if link["type"] == "file"]
    assert links
    for link in links:
        text = Text(Path(os.fsdecode(unquote_to_bytes(link["uri"].removeprefix("file://")))).read_bytes())
        lines = parse_range(link["range"])
        assert lines is not None
        span = text.span(*lines)
        assert span is not None
        assert link["digest"] == "sha256:" + hashlib.sha256(text.slice(span)).hexdigest()


@requirement("R2", "shutdown-time")
def test_check_10_shutdown_clean(made: Made, tmp_path: Path) -> None:
    host = Host(made, tmp_path)
    host.send(b'{"type":"shutdown"}')
    assert 0 == host.process.wait(timeout=20)
    host.close()


@requirement("R1", "bad_request")
def test_check_11_malformed_input_tolerance(made: Made, tmp_path: Path) -> None:
    host = Host(made, tmp_path)
    query = json.dumps({"type": "query", "query": SAMPLE}).encode()
    for bad in (b"this is not valid json {{{", b"42", b'{"type":"query","id":"cgp-r1-missing-payload"}'):
        host.send(bad)
        host.send(query)
        assert ("error", "bad_request") == ((error := host.receive())["type"], error["code"])
        assert "frames" == host.receive()["type"]
    host.close()


@requirement("H4")
def test_check_13_correlation(made: Made, tmp_path: Path) -> None:
    host = Host(made, tmp_path)
    assert host.ack["capabilities"]["correlation"]
    reply = host.ask({"type": "query", "id": "cgp-conformance-h4-7f3a", "query": SAMPLE})
    assert "cgp-conformance-h4-7f3a" == reply["id"]
    host.close()


@requirement("attest-none")
def test_check_14_attestation(host: Host) -> None:
    assert "attester_keys" not in host.ack
    assert not {"frame_attestations", "result_attestation"} & set(host.query())


@pytest.mark.skipif(os.name != "posix", reason="no file modes here")
@requirement("attest-keys", "F11", "F13", "key-limits")
def test_check_14_attestation_with_keys(made: Made, tmp_path: Path) -> None:
    """Over the pipe and by the published construction, apart from `verify_result`."""
    new_key(str(tmp_path / "key.json"))
    host = Host(made, tmp_path, "--sign", str(tmp_path / "key.json"), "--sign-each")
    (key,) = host.ack["attester_keys"]
    assert ("ed25519", True) == (key["algorithm"], 0 < len(key["key_id"].encode()) <= 128)
    result = host.query()
    served = {frame["id"]: msgspec.convert(frame, ContextFrame) for frame in result["frames"]}
    assert len(served) == len(result["frame_attestations"]) > 1
    root = result["result_attestation"]
    for entry in result["frame_attestations"]:
        frame = served.pop(entry["frame"]["frame_id"])
        assert (host.ack["provider"]["name"], frame.content_digest) == (
            entry["frame"]["provider_id"],
            entry["frame"]["content_digest"],
        )
        own, signed = commitment("repo-provider", frame), entry["attestation"]
        proof = msgspec.convert(entry["inclusion_proof"], InclusionProof)
        for evidence, leads_to in ((signed, own), (root, proven_root(own, proof))):
            assert leads_to is not None
            assert (key["key_id"], f"sha256:{leads_to.hex()}") == (evidence["key_id"], evidence["signed_commitment"])
            assert is_signed(bytes.fromhex(key["public_key"]), leads_to, bytes.fromhex(evidence["signature"]))
    assert {"valid"} == set(host.verify(result["frames"]))
    host.close()
