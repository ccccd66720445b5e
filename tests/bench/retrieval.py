"""How well answers answer: public questions over real repositories, scored by rank and by tokens spent.

    python -m tests.bench retrieval --repos DIR --queries FILE [--issues FILE] [--only NAME,...] [--store DIR]
                                    [--json FILE] [--results FILE] [--ablation]

`--repos` holds one checkout a repository, at the revision that its questions name. A question is a JSON line of
`query_id`, `repo`, `root`, `query`, `relevant` ([{path, start_line, end_line}]), `category`; an issue one of
`instance_id`, `repo`, `base_commit_date`, `problem_statement`, `gold_files`. No data of a benchmark is part of this
project. Everything is asked with no deadline, so the figures depend on the repositories alone.

NDCG@10 takes frames in order; results outside a question's root are skipped, several frames of one file each take
a place, and the mean is over repositories. Recall is of targets, over the frames in order until the tokens are spent.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from repo_provider import ranking
from repo_provider.frames import parse_name
from repo_provider.protocol import ContextFrame, ContextQuery, Instant, format_instant, parse_range
from repo_provider.provider import Provider
from repo_provider.settings import Settings

BUDGETS = (500, 1000, 2000, 4000)
ADDED: Sequence[tuple[str, Sequence[str]]] = (
    ("words of the file (BM25 over subwords)", ("body", "share")),
    ("words of the path", ("path", "folder", "stem", "stem_share", "stem_all")),
    (
        "tests, docs, vendored files down",
        ("unwanted", "unwanted_docs", "unwanted_test", "unwanted_bench", "unwanted_vendored", "unwanted_lockfile"),
    ),
    ("whole names from neighbouring words", ("whole_body", "whole_names", "whole_comments")),
    ("names it defines", ("names", "names_share")),
    ("comments and doc strings", ("comments", "comments_share")),
    ("messages of its commits", ("commits",)),
    ("mentioned by other files", ("central",)),
    ("best block, head of the file", ("block", "block_share", "coherence", "head")),
    ("definitions by syntax", ("definition", "exact")),
)


class Target(Struct, frozen=True):
    path: str
    start_line: int | None = None
    end_line: int | None = None


class Question(Struct, frozen=True):
    query_id: str
    repo: str
    root: str
    query: str
    relevant: tuple[Target, ...]
    category: str = ""


class Result(Struct, frozen=True):
    """A frame as the measures see it. Frames without a path, commits, are no results."""

    path: str
    first: int | None
    last: int | None
    tokens: int


def questions(file: str) -> list[Question]:
    found = []
    for line in filter(str.strip, Path(file).read_text(encoding="utf-8").splitlines()):
        told = json.loads(line)
        targets = tuple(Target(t["path"], t.get("start_line"), t.get("end_line")) for t in told["relevant"])
        query_id, repo, root, query = (told[key] for key in ("query_id", "repo", "root", "query"))
        found.append(Question(query_id, repo, root, query, targets, told.get("category", "")))
    return found


def results(frames: Iterable[ContextFrame]) -> list[Result]:
    found = []
    for frame in frames:
        name = parse_name(frame.id)
        if name is not None and name.path:
            first, last = parse_range(frame.provenance[0].range or "") or (None, None)
            found.append(Result(name.path.decode("utf-8", "replace"), first, last, frame.token_cost))
    return found


# --- measures --------------------------------------------------------------------------------------------------


def matches(result: Result, target: Target) -> bool:
    if result.path != target.path:
        return False
    if target.start_line is None or target.end_line is None or result.first is None or result.last is None:
        return True
    return result.last >= target.start_line and result.first <= target.end_line


def inside(found: Iterable[Result], root: str) -> list[Result]:
    prefix = "" if root in ("", ".") else root.rstrip("/") + "/"
    return [result for result in found if result.path.startswith(prefix)]


def ndcg(found: Sequence[Result], targets: Sequence[Target], k: int = 10) -> float:
    first = (next((i for i, r in enumerate(found[:k]) if matches(r, target)), None) for target in targets)
    gained = {place for place in first if place is not None}
    ideal = sum(1 / math.log2(i + 2) for i in range(min(k, len(targets))))
    return sum(1 / math.log2(i + 2) for i in sorted(gained)) / ideal


def recall(found: Sequence[Result], targets: Sequence[Target], budget: int) -> float:
    """The part of the targets that the frames in order cover before the tokens are spent."""
    covered, spent = set[int](), 0
    for result in found:
        spent += result.tokens
        if spent > budget:
            break
        covered |= {i for i, target in enumerate(targets) if matches(result, target)}
    return len(covered) / len(targets)


# --- asking ----------------------------------------------------------------------------------------------------


class Asked(Struct, frozen=True):
    """One question's figures."""

    question: Question
    ndcg: float
    first: bool
    recall: Mapping[int, float]
    small: bool
    seconds: float
    results: Sequence[Result]


def ask(provider: Provider, text: str, max_frames: int, max_tokens: int, as_of: str | None = None) -> list[Result]:
    query = ContextQuery(goal=text, max_frames=max_frames, max_tokens=max_tokens, as_of=as_of)
    return results(provider.query(query).frames)


def asked(provider: Provider, question: Question, *, budgets: bool = True) -> Asked:
    started = time.perf_counter()
    ranked = inside(ask(provider, question.query, 40, 200_000), question.root)
    seconds = time.perf_counter() - started
    packed = ask(provider, question.query, 50, max(BUDGETS)) if budgets else []
    small = ask(provider, question.query, 8, 2000) if budgets else []
    return Asked(
        question,
        ndcg(ranked, question.relevant),
        any(matches(result, target) for result in ranked[:1] for target in question.relevant),
        {budget: recall(inside(packed, question.root), question.relevant, budget) for budget in BUDGETS},
        any(matches(result, target) for result in small for target in question.relevant),
        seconds,
        ranked,
    )


def over(repos: str, store: str | None, names: Iterable[str], work: Callable[[str, Provider], None]) -> None:
    """Runs `work` with each repository's provider, whose index is complete."""
    for name in names:
        directory = None if store is None else str(Path(store) / name)
        provider = Provider(Settings(str(Path(repos).absolute() / name), store=directory, deadline=None))
        try:
            provider.warm()
            work(name, provider)
        finally:
            provider.close()


# --- reports ---------------------------------------------------------------------------------------------------


def report(answers: Sequence[Asked]) -> dict[str, Any]:
    by_repo, by_category = defaultdict[str, list[Asked]](list), defaultdict[str, list[Asked]](list)
    for answer in answers:
        by_repo[answer.question.repo].append(answer)
        by_category[answer.question.category].append(answer)
    return {
        "questions": len(answers),
        "ndcg10_mean_over_repos": _round(_mean(_mean(a.ndcg for a in of) for of in by_repo.values())),
        "first": _round(_mean(float(a.first) for a in answers)),
        "recall": {budget: _round(_mean(a.recall[budget] for a in answers)) for budget in BUDGETS},
        "in_8_frames_2000_tokens": _round(_mean(float(a.small) for a in answers)),
        "median_ms": round(1000 * statistics.median(a.seconds for a in answers), 1),
        "ndcg10_by_category": {name: _round(_mean(a.ndcg for a in of)) for name, of in sorted(by_category.items())},
        "ndcg10_by_repo": {name: _round(_mean(a.ndcg for a in of)) for name, of in sorted(by_repo.items())},
    }


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def _round(value: float) -> float:
    return round(value, 4)


def measure_issues(repos: str, store: str | None, file: str, only: frozenset[str]) -> dict[str, Any]:
    """At which distinct file the fixed one stands when an issue's text is asked as of the day it was written."""
    issues = defaultdict[str, list[dict[str, Any]]](list)
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        issue = json.loads(line)
        issues[issue["repo"].rpartition("/")[2]].append(issue)
    places: dict[str, int | None] = {}

    def work(name: str, provider: Provider) -> None:
        for issue in issues[name]:
            day = format_instant(Instant(int(datetime.fromisoformat(issue["base_commit_date"]).timestamp())))
            found = ask(provider, issue["problem_statement"], 60, 200_000, day)
            order = list(dict.fromkeys(result.path for result in found))
            ranks = [order.index(path) + 1 for path in issue["gold_files"] if path in order]
            places[issue["instance_id"]] = min(ranks, default=None)
            print(f"{issue['instance_id']:40} {places[issue['instance_id']]}", flush=True)

    over(repos, store, (name for name in sorted(issues) if not only or name in only), work)
    ranked = [place for place in places.values() if place is not None]
    return {
        "issues": len(places),
        "first": _round(sum(place == 1 for place in ranked) / max(1, len(places))),
        "first_five": _round(sum(place <= 5 for place in ranked) / max(1, len(places))),
        "places": places,
    }


def ablation(repos: str, store: str | None, by_repo: Mapping[str, Sequence[Question]]) -> list[tuple[str, float]]:
    """NDCG@10 with the parts of the score added one group after the other, in the order of `ADDED`."""
    weights, sums = ranking.WEIGHTS, defaultdict[str, list[float]](list)

    def work(name: str, provider: Provider) -> None:
        kept: set[str] = set()
        for label, parts in ADDED:
            kept |= set(parts)
            ranking.WEIGHTS = {part: weight for part, weight in weights.items() if part in kept}
            sums[label].append(_mean(asked(provider, question, budgets=False).ndcg for question in by_repo[name]))
        ranking.WEIGHTS = weights

    over(repos, store, sorted(by_repo), work)
    return [(label, _round(_mean(sums[label]))) for label, _ in ADDED]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench retrieval")
    parser.add_argument("--repos", required=True)
    parser.add_argument("--queries")
    parser.add_argument("--issues")
    parser.add_argument("--only", default="")
    parser.add_argument("--store")
    parser.add_argument("--json")
    parser.add_argument("--results")
    parser.add_argument("--ablation", action="store_true")
    options = parser.parse_args()
    only = frozenset(filter(None, options.only.split(",")))
    told: dict[str, Any] = {}
    by_repo = defaultdict[str, list[Question]](list)
    for question in questions(options.queries) if options.queries else []:
        if not only or question.repo in only:
            by_repo[question.repo].append(question)
    answers: list[Asked] = []

    def work(name: str, provider: Provider) -> None:
        here = [asked(provider, question) for question in by_repo[name]]
        answers.extend(here)
        print(f"{name:12} {len(here):4} questions   NDCG@10 {_mean(a.ndcg for a in here):.3f}", flush=True)

    if by_repo and options.ablation:
        told["ablation"] = ablation(options.repos, options.store, by_repo)
        for label, value in told["ablation"]:
            print(f"{label:44} {value:.3f}")
    elif by_repo:
        over(options.repos, options.store, sorted(by_repo), work)
        told["retrieval"] = report(answers)
        print(json.dumps(told["retrieval"], indent=1))
    if options.issues:
        told["issues"] = measure_issues(options.repos, options.store, options.issues, only)
        print(json.dumps({key: value for key, value in told["issues"].items() if key != "places"}, indent=1))
    if options.json:
        Path(options.json).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if options.results:
        _write_results(options.results, answers)


def _write_results(file: str, answers: Sequence[Asked]) -> None:
    lines = []
    for answer in answers:
        found = [{"path": r.path, "start_line": r.first, "end_line": r.last} for r in answer.results]
        lines.append(json.dumps({"query_id": answer.question.query_id, "results": found}))
    Path(file).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
