"""The module map as data, compared with the imports the modules really have.

A rule nobody checks drifts. Every import counts: at the top, inside a function, for the type checker only.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import fault

PACKAGE = Path(__file__).parents[1] / "repo_provider"

VALUES = {"errors", "protocol", "model"}

MAP: dict[str, set[str]] = {
    "__init__": set(),
    "errors": set(),
    "protocol": {"errors"},
    "model": {"errors", "protocol"},
    "settings": {"errors", "protocol"},
    "globs": VALUES,
    "words": VALUES,
    "files": VALUES,
    # the conversation and its edges: no repository in sight
    "wire": {"errors", "protocol"},
    "session": {"errors", "protocol", "wire"},
    "stdio": {"errors", "protocol", "wire", "session", "settings"},
    "httpd": {"errors", "protocol", "wire", "session", "settings"},
    # the core: none of these knows another, they meet in provider
    "planner": VALUES | {"words"},
    "lexical": VALUES | {"words"},
    "sections": VALUES,
    "syntax": VALUES | {"files", "sections"},
    "ranking": VALUES | {"words"},
    "imports": VALUES,
    "graph": VALUES | {"imports"},
    "frames": VALUES,
    "tokens": VALUES,
    "attest": VALUES,
    "store": VALUES,
    "workers": VALUES,
    "disk": {"errors"},
    "ignores": set(),
    "refs": {"disk"},
    "worktree": VALUES | {"disk", "ignores"},
    "repository": VALUES | {"disk", "refs", "worktree"},
    "changes": VALUES | {"repository", "worktree"},
    "commits": VALUES | {"repository", "changes"},
    "history": VALUES | {"repository", "changes", "commits"},
    "episodes": VALUES | {"commits"},
    # where they meet
    "cache": set(),
    "corpus": VALUES | {"cache", "files", "imports", "lexical", "syntax", "repository", "store", "workers"},
    "provider": VALUES
    | {"settings", "globs", "files", "planner", "lexical", "syntax", "ranking", "imports", "graph", "frames", "tokens"}
    | {"attest", "cache", "corpus", "store", "workers", "repository", "commits", "history", "episodes"},
    "versions": VALUES | {"planner", "commits", "repository", "history", "provider"},
    # what a person types and reads
    "display": VALUES | {"attest"},
    "tools": VALUES | {"settings", "globs", "frames", "provider", "versions"},
    "mcp_server": VALUES | {"settings", "frames", "provider", "tools"},
    "cli": VALUES
    | {"settings", "globs", "wire", "session", "stdio", "httpd", "mcp_server", "display", "provider", "versions"}
    | {"attest", "tokens", "store", "syntax"},
    "__main__": {
        "cache",
        "errors",
        "protocol",
        "settings",
        "session",
        "stdio",
        "httpd",
        "attest",
        "tokens",
        "provider",
        "cli",
    }
    | {"mcp_server"},
}
"""Module -> the modules of this package it may import."""

OWNERS: dict[str, set[str]] = {
    "pygit2": {"repository"},
    "tree_sitter": {"syntax"},
    "numpy": {"lexical", "ranking", "episodes", "model"},
    "click": {"cli"},
    "rich": {"cli", "display"},
    "tiktoken": {"tokens"},
    "tiktoken_ext": {"tokens"},
    "cryptography": {"attest"},
    "starlette": {"httpd"},
    "uvicorn": {"httpd"},
    "h11": {"httpd"},
    "mcp": {"mcp_server"},
    "anyio": {"mcp_server"},
    "msgspec": set(MAP) - {"errors"},
}
"""Package from outside -> the only modules that may import it."""

STANDARD_OWNERS: dict[str, set[str]] = {
    "sqlite3": {"store"},
    "subprocess": {"workers"},
    "multiprocessing": {"workers"},
    "asyncio": {"httpd", "mcp_server"},
    "random": set(),
    "urllib.request": {"tokens"},
    "http.client": {"tokens"},
    "http.server": set(),
    "socket": {"httpd"},
}
"""Parts of the standard library that start processes, reach out or make chance -> who may import them."""

SURROUNDINGS = {"environ", "environb", "getenv", "getcwd", "getcwdb", "argv", "expanduser"}


def modules() -> list[str]:
    return sorted(path.stem for path in PACKAGE.glob("*.py"))


def imported(module: str) -> Iterator[str]:
    """Full dotted names of everything a module imports, wherever in the file."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert 0 == node.level, "imports are absolute"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module}.py").read_bytes())


def test_every_module_stands_in_the_map() -> None:
    assert set() == set(modules()) - set(MAP)


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_what_the_map_allows(module: str) -> None:
    inside = {name.split(".")[1] for name in imported(module) if name.startswith("repo_provider.")}
    assert set() == (inside & set(MAP)) - MAP[module]


@fault(115)
@pytest.mark.parametrize("module", modules())
def test_a_package_from_outside_has_its_owner(module: str) -> None:
    for name in imported(module):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names:
            owned = [owners for part, owners in STANDARD_OWNERS.items() if f"{name}.".startswith(f"{part}.")]
            assert all(module in owners for owners in owned), name
        elif top != "repo_provider":
            assert module in OWNERS[top], name


@pytest.mark.parametrize("module", sorted(set(modules()) - {"cli", "__main__"}))
def test_nobody_below_the_command_line_reads_the_surroundings(module: str) -> None:
    read = {node.attr for node in ast.walk(tree(module)) if isinstance(node, ast.Attribute)} & SURROUNDINGS
    assert set() == read


def test_the_core_modules_do_not_know_each_other() -> None:
    core = {"planner", "lexical", "syntax", "ranking", "graph", "frames", "history", "store"}
    assert all(not MAP[module] & core for module in core)


def test_the_map_has_no_circle() -> None:
    done: set[str] = set()
    while done < set(MAP):
        ready = {module for module, needs in MAP.items() if needs <= done} - done
        assert ready, f"a circle among {sorted(set(MAP) - done)}"
        done |= ready
