"""What a person installs: the wheel, its contents, and the command it brings."""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import entry_points, metadata
from pathlib import Path

import pytest

import repo_provider
from tests.faults import fault
from tests.test_layers import OWNERS, imported, modules

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as pip builds it, without a network."""
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def built(target: str, source: Path, folder: Path) -> Path:
    build = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=120)
    return next(folder.iterdir())


def test_the_wheel_holds_the_package_the_grammars_and_the_licences(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {f"repo_provider/{path.name}" for path in (ROOT / "repo_provider").glob("*.*")}
    grammars = {f"repo_provider/{path.relative_to(ROOT)}" for path in (ROOT / "grammars").rglob("*.*")}
    assert set() == (modules | grammars | {"repo_provider/py.typed"}) - names
    assert {"LICENSE-MIT", "LICENSE-APACHE"} <= {name.rpartition("/")[2] for name in names}
    assert set() == {name for name in names if name.startswith(("tests/", "fixtures/", "grammars/"))}


def test_the_source_distribution_holds_what_the_wheel_is_built_from(wheel: Path, tmp_path: Path) -> None:
    source = built("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(source) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    assert set() == tops & {"tests", "fixtures", ".ci"}
    again = built("wheel", tmp_path / source.name.removesuffix(".tar.gz"), tmp_path / "wheel")
    assert zipfile.ZipFile(wheel).namelist() == zipfile.ZipFile(again).namelist()


def test_the_package_works_from_an_unpacked_wheel_with_its_own_grammars(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = (
        "import repo_provider, repo_provider.files as files; "
        "print(repo_provider.__file__); print(files.language_of(b'a.rs', b'').name); print(files.grammars_folder())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = [tmp_path / "repo_provider" / "__init__.py", "rust", tmp_path / "repo_provider" / "grammars"]
    assert [str(line) for line in expected] == run.stdout.splitlines()


def test_the_metadata_says_what_the_project_is() -> None:
    told = metadata("repo-provider")
    assert ("repo-provider", "MIT OR Apache-2.0", ">=3.11") == (
        told["Name"],
        told["License-Expression"],
        told["Requires-Python"],
    )
    assert repo_provider.__version__ == told["Version"]
    (command,) = entry_points(group="console_scripts", name="repo-provider")
    assert "repo_provider.__main__:main" == command.value


def test_the_package_exports_its_version_and_nothing_else() -> None:
    tree = ast.parse((ROOT / "repo_provider" / "__init__.py").read_text())
    names = [target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
             if isinstance(target, ast.Name)]  # fmt: skip
    assert ["__version__"] == names


def test_every_package_from_outside_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {_name(requirement).replace("-", "_") for requirement in project["dependencies"]}
    part_of = {"tiktoken_ext": "tiktoken"}
    used = {name.partition(".")[0] for module in modules() for name in imported(module)} & set(OWNERS)
    assert set() == {part_of.get(name, name) for name in used} - declared


@fault(115)
def test_every_dependency_is_used_and_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    assert set() == {_name(requirement) for requirement in wanted} - pinned
    sources = "".join(path.read_text() for path in (ROOT / "repo_provider").glob("*.py"))
    sources += "".join(path.read_text() for path in (ROOT / "grammars").rglob("manifest.toml"))
    unused = [name for name in map(_name, project["dependencies"]) if name.replace("-", "_") not in sources]
    assert [] == unused


def _name(requirement: str) -> str:
    for mark in "<>=!~; [":
        requirement = requirement.partition(mark)[0]
    return requirement.strip().lower()
