"""A store after hundreds of edits and branches: what `prune` leaves of it, and what it must not touch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from repo_provider.protocol import ContextQuery
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from tests.faults import fault
from tests.faults.injection import LONG, rounds
from tests.repos import Files, Made, blob_id, make_repo

BRANCHES = 20 if LONG else 6
ASKED = ContextQuery("where is the harbour master", 8, 4000)


def body(number: int) -> str:
    return "".join(f"def berth_{number}_{n}(ship):\n    return harbour_master(ship, {n})\n\n\n" for n in range(40))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return make_repo([("2026-01-01", {f"{n}.py": body(n) for n in range(30)})], tmp_path / "repo")


def opened(made: Made, store: Path) -> Provider:
    return Provider(Settings(str(made.path), store=str(store), workers=1))


def size_when_fresh(made: Made, store: Path) -> int:
    fresh = opened(made, store)
    fresh.warm()
    fresh.close()
    again = opened(made, store)
    size = again.store.facts().size
    again.close()
    return size


@fault(61)
def test_after_edits_and_branches_a_pruned_store_is_as_small_as_a_fresh_one(made: Made, tmp_path: Path) -> None:
    used = opened(made, tmp_path / "used")
    for edit in range(rounds(8)):
        made.write("7.py", body(7) + f"edit_{edit} = 1\n")
        used.query(ASKED)
    for branch in range(BRANCHES):
        ref = f"refs/heads/b{branch}"
        changed: Files = {f"{n}.py": body(n) + f"branch_{branch} = 1\n" for n in range(30)}
        made.commit("2026-01-02", changed, ref=ref, parents=[made.tip()])
        made.set_head(ref)
        used.query(ASKED)
    made.set_head("refs/heads/main")
    for branch in range(BRANCHES):
        made.repo.references.delete(f"refs/heads/b{branch}")
    used.warm()
    assert used.prune()
    size, answer = used.store.facts().size, used.query(ASKED)
    used.close()
    assert size < 3 * size_when_fresh(made, tmp_path / "fresh")
    fresh = opened(made, tmp_path / "fresh")
    assert answer == fresh.query(ASKED)
    fresh.close()


@fault(61)
def test_what_any_ref_or_working_tree_still_leads_to_is_kept(made: Made, tmp_path: Path) -> None:
    first = made.tip()
    second = made.commit("2026-01-02", {"deep/side.py": "side = 1\n"}, ref="refs/heads/side", parents=[first])
    gone = made.commit("2026-01-03", {"lost.py": "lost = 1\n"}, ref="refs/heads/lost", parents=[first])
    made.commit("2026-01-04", {"tagged.py": "tagged = 1\n"}, ref="refs/tags/t", parents=[first])
    beside = made.commit("2026-01-05", {"beside.py": "beside = 1\n"}, ref="refs/heads/wt", parents=[second])
    folder = made.path / ".git" / "worktrees" / "w"
    folder.mkdir(parents=True)
    (folder / "HEAD").write_text(beside.hex() + "\n")
    for ref in ("refs/heads/lost", "refs/heads/wt", "refs/heads/side"):
        made.repo.references.delete(ref)
    provider = opened(made, tmp_path / "stores")
    every = {name: blob_id(f"{name} = 1\n".encode()) for name in ("side", "lost", "tagged", "beside", "never")}
    reached = provider.repository.reached(set(every.values()))
    provider.close()
    assert {"side", "tagged", "beside"} == {name for name, blob in every.items() if blob in reached}
    assert gone


@fault(61)
def test_a_store_that_another_process_owns_is_not_pruned(made: Made, tmp_path: Path) -> None:
    owner, reader = opened(made, tmp_path / "stores"), opened(made, tmp_path / "stores")
    assert (True, False) == (owner.prune(), reader.prune())
    owner.close()
    reader.close()
    shutil.rmtree(tmp_path / "stores")
