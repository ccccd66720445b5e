"""Which files an import names: the rules by which languages spell modules, applied to the paths of one snapshot.

Pure: paths and the bytes of small build files in, paths out; nothing is opened, nothing is executed. What a language
needs is a table `[imports]` in its manifest (`Rules`): one of the schemes below and its data. Whatever cannot be told
from paths alone is left out, never guessed: a wrong edge misleads, a missing one does not.

    modules   dotted names of files below a root, relative by leading dots: Python, Lua, Haskell, Elixir, Perl
    paths     paths, relative to the file or below a root: JavaScript, C, Ruby, shell, Zig
    packages  names of folders, the last part maybe a type in a file of its name: Java, Kotlin, Scala, PHP
    folders   a prefix the build file gives, then a folder whose files are one module: Go
    crates    the module tree of a crate: Rust
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, convert

from repo_provider.model import Import, Outline, Path, normal_path

CONFIG = re.compile(
    rb"(?:.*/)?(?:go\.mod|package\.json|[jt]sconfig[\w.-]*\.json|composer\.json|Cargo\.toml|pubspec\.yaml)"
)
"""Build files that say how modules are named."""
_INSTALLED = re.compile(rb"(?:^|/)node_modules/")
MOST_CONFIGS = 400
MOST_IMPORTS = 500
"""Imports of one file that are looked at."""
MOST_FILES = 64
"""Files of one module at most: of a larger folder the first by name."""
_MOST_KNOWN = 4096


class Rules(Struct, frozen=True):
    """The `[imports]` table of a language's manifest.

    `extensions` are tried in order; `index` are the names of files that stand for their folder; `roots` the names of
    folders that modules are looked for in, `*` any. `swaps` are extensions written for others (`.js` for a `.ts`).
    `beside` says which paths are relative to the file: those that begin with a dot (`dot`), those the language
    marks (`marked`) or all (`always`). `anywhere`: a marked path that is not there is looked for everywhere.
    `style` is how a module's name becomes a file's: `snake` or `lower` (its first letter). `shares` is what a file
    sees without an import: nothing, its `folder`. `skip` is a pattern of files that are no part of a module.
    `inline`: code may name a module by its full name without importing it. `loose`: a name may come from anywhere,
    whatever was imported. Languages of one `family` see each other's names.
    """

    scheme: str = ""
    family: str = ""
    extensions: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    separator: str = "."
    roots: tuple[str, ...] = ()
    swaps: Mapping[str, tuple[str, ...]] = {}
    beside: str = "dot"
    anywhere: bool = False
    packages: bool = False
    style: str = ""
    shares: str = ""
    skip: str = ""
    inline: bool = False
    loose: bool = False


def rules(language: str, table: Mapping[str, Any]) -> Rules:
    """The rules in a manifest's table; of a language without one, those of names that may come from anywhere."""
    return convert({"family": language, **table}, Rules) if table else Rules(family=language, loose=True)


class Binding(Struct, frozen=True):
    """What an import brings into a file.

    `alias` is the name it is called by there, "" for one that only opens the module's names (`open`). `files` are the
    files of the module, the most telling first; `member` is what it names inside them, "" for the module itself.
    """

    alias: str
    files: tuple[Path, ...]
    member: str = ""
    open: bool = False
    at: int = 0


class Tree:
    """The paths of one snapshot, found by how they end and by folder."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = dict.fromkeys(paths)

    def __contains__(self, path: object) -> bool:
        return path in self.paths

    @cached_property
    def named(self) -> Mapping[bytes, Sequence[Path]]:
        """File name -> paths, in path order."""
        found: dict[bytes, list[Path]] = {}
        for path in self.paths:
            found.setdefault(path[path.rfind(b"/") + 1 :], []).append(path)
        return found

    @cached_property
    def folders(self) -> Mapping[bytes, Sequence[Path]]:
        """Folder -> the files directly in it; folders that hold only folders are there too."""
        found: dict[bytes, list[Path]] = {}
        for path in self.paths:
            folder = _folder(path)
            if folder not in found:
                for above in _upwards(folder):
                    found.setdefault(above, [])
            found[folder].append(path)
        return found

    @cached_property
    def _folder_tails(self) -> Mapping[bytes, Sequence[bytes]]:
        found: dict[bytes, list[bytes]] = {}
        for folder in self.folders:
            found.setdefault(folder[folder.rfind(b"/") + 1 :], []).append(folder)
        return found

    @cached_property
    def configs(self) -> tuple[Path, ...]:
        """The build files, those nearest the top where there are too many."""
        found = [path for path in self.paths if CONFIG.fullmatch(path) and not _INSTALLED.search(path)]
        return tuple(sorted(found, key=lambda path: (path.count(b"/"), path))[:MOST_CONFIGS])

    def ending(self, tail: bytes) -> list[Path]:
        """Paths that are this tail below any folder. The usual name of a folder's own file is found by the folder."""
        if b"/" in tail:
            folder, _, name = tail.rpartition(b"/")
            if len(self.named.get(name, ())) > len(self._folder_tails.get(folder[folder.rfind(b"/") + 1 :], ())):
                inside = (_join(one, name) for one in self.folders_ending(folder))
                return [path for path in inside if path in self.paths]
        slashed = b"/" + tail
        return [
            path for path in self.named.get(tail[tail.rfind(b"/") + 1 :], ()) if path == tail or path.endswith(slashed)
        ]

    def folders_ending(self, tail: bytes) -> list[bytes]:
        slashed = b"/" + tail
        return [
            folder
            for folder in self._folder_tails.get(tail[tail.rfind(b"/") + 1 :], ())
            if folder == tail or folder.endswith(slashed)
        ]


class Modules:
    """What the imports of one snapshot's files mean.

    `rules` gives those of a language; `read` the bytes of a build file. What is found out is remembered: it depends on
    nothing else.
    """

    def __init__(self, tree: Tree, rules: Callable[[str], Rules], read: Callable[[Path], bytes | None]) -> None:
        self.tree, self.rules, self._read = tree, rules, read
        self._known: dict[tuple[Path, str, tuple[Import, ...]], tuple[Binding, ...]] = {}
        self._folders: dict[tuple[str, bytes], tuple[Path, ...]] = {}

    def bindings(self, path: Path, outline: Outline) -> tuple[Binding, ...]:
        """What a file's imports bring, in order. What is not in this snapshot is known to come from outside: no files.

        An outline of nothing but imports answers for names that code spells out.
        """
        key = path, outline.language, outline.imports
        found = self._known.get(key)
        if found is None:
            rules = self.rules(outline.language)
            scheme = _SCHEMES.get(rules.scheme, _Scheme)(self, rules)
            written = outline.imports[:MOST_IMPORTS]
            found = tuple(binding for each in written for binding in scheme.bound(each, path, outline))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def shared(self, path: Path, language: str) -> tuple[Path, ...]:
        """The files whose names a file sees without importing them."""
        rules = self.rules(language)
        return self.members(rules, _folder(path)) if rules.shares == "folder" else ()

    def members(self, rules: Rules, folder: bytes) -> tuple[Path, ...]:
        """The files of a folder that are its module, the one called like the folder first."""
        key = rules.family, folder
        found = self._folders.get(key)
        if found is None:
            ends = tuple(f".{extension}".encode() for extension in rules.extensions)
            skip = re.compile(rules.skip.encode()) if rules.skip else None
            own = [path for path in self.tree.folders.get(folder, ()) if path.endswith(ends)]
            own = [path for path in own if not (skip and skip.search(path))]
            own.sort(key=lambda path: (_stem(path) != _stem(folder), path))
            found = self._folders[key] = tuple(own[:MOST_FILES])
        return found

    # --- build files

    def json(self, path: Path) -> Mapping[str, Any]:
        """A build file in JSON, comments and trailing commas allowed; empty where it is none."""
        data = self._read(path) or b""
        text = data.decode("utf-8-sig", "replace")
        for attempt in (text, _COMMAS.sub(r"\1", _COMMENTS.sub(_uncommented, text))):
            try:
                found = json.loads(attempt)
            except (ValueError, RecursionError):
                continue
            return found if isinstance(found, dict) else {}
        return {}

    def _configs(self, pattern: bytes) -> Iterator[tuple[bytes, Path]]:
        """The folder and path of every build file with such a name."""
        for path in self.tree.configs:
            if re.fullmatch(pattern, path[path.rfind(b"/") + 1 :]):
                yield _folder(path), path

    @cached_property
    def go_modules(self) -> Mapping[str, bytes]:
        """Module path -> folder of its go.mod."""
        found: dict[str, bytes] = {}
        for folder, path in self._configs(rb"go\.mod"):
            if named := re.search(rb'^[ \t]*+module[ \t]++"?([^\s"]+)', self._read(path) or b"", re.M):
                found.setdefault(named[1].decode("utf-8", "replace"), folder)
        return found

    @cached_property
    def node_packages(self) -> Mapping[str, tuple[bytes, Mapping[str, Any]]]:
        """Package name -> its folder and package.json."""
        found: dict[str, tuple[bytes, Mapping[str, Any]]] = {}
        for folder, path in self._configs(rb"package\.json"):
            manifest = self.json(path)
            if isinstance(name := manifest.get("name"), str) and name:
                found.setdefault(name, (folder, manifest))
        return found

    @cached_property
    def type_paths(self) -> Mapping[bytes, tuple[tuple[str, tuple[bytes, ...]], ...]]:
        """Folder of a tsconfig.json -> its `paths`: a pattern with at most one `*`, and the paths it stands for."""
        found = {}
        for folder, path in self._configs(rb"[jt]sconfig\.json"):
            found[folder] = tuple(self._type_paths(path, 5))
        return found

    def _type_paths(self, path: Path, depth: int) -> Iterator[tuple[str, tuple[bytes, ...]]]:
        config, folder = self.json(path), _folder(path)
        options = config.get("compilerOptions")
        options = options if isinstance(options, dict) else {}
        base = options.get("baseUrl")
        root = _resolved(folder, base) if isinstance(base, str) else folder
        paths = options.get("paths")
        for pattern, targets in paths.items() if isinstance(paths, dict) else ():
            places = targets if isinstance(targets, list) else []
            found = (_resolved(root or b"", each) for each in places if isinstance(each, str))
            yield pattern, tuple(each for each in found if each is not None)
        if isinstance(base, str) and root is not None:
            yield "*", (_join(root, b"*"),)
        if not paths and depth:
            for wider in _strings(config.get("extends")):
                inherited = _resolved(folder, wider if wider.endswith(".json") else wider + ".json")
                if wider.startswith(".") and inherited in self.tree.paths:
                    yield from self._type_paths(Path(inherited), depth - 1)

    @cached_property
    def php_prefixes(self) -> tuple[tuple[str, bytes], ...]:
        """Namespace prefix -> folder (PSR-4), longest prefix first."""
        found: list[tuple[str, bytes]] = []
        for folder, path in self._configs(rb"composer\.json"):
            manifest = self.json(path)
            for section in (manifest.get("autoload"), manifest.get("autoload-dev")):
                standard = section.get("psr-4") if isinstance(section, dict) else None
                for prefix, places in standard.items() if isinstance(standard, dict) else ():
                    targets = (_resolved(folder, place) for place in _strings(places))
                    found += [(prefix.strip("\\"), target) for target in targets if target is not None]
        return tuple(sorted(found, key=lambda pair: (-len(pair[0]), pair)))

    @cached_property
    def dart_packages(self) -> Mapping[str, bytes]:
        """Package name -> folder of its pubspec.yaml."""
        found: dict[str, bytes] = {}
        for folder, path in self._configs(rb"pubspec\.yaml"):
            if named := re.search(rb"^name:[ \t]*[\"']?([\w-]+)", self._read(path) or b"", re.M):
                found.setdefault(named[1].decode(), folder)
        return found

    @cached_property
    def crates(self) -> Mapping[bytes, tuple[str, Path | None]]:
        """Folder of a Cargo.toml -> the crate's name in code and the file at its root."""
        found: dict[bytes, tuple[str, Path | None]] = {}
        for folder, path in self._configs(rb"Cargo\.toml"):
            try:
                manifest = tomllib.loads((self._read(path) or b"").decode("utf-8", "replace"))
            except (ValueError, RecursionError):
                continue
            package, library = manifest.get("package"), manifest.get("lib")
            if isinstance(package, dict) and isinstance(name := package.get("name"), str):
                written = library if isinstance(library, dict) else {}
                name = written.get("name") if isinstance(written.get("name"), str) else name
                places = [written["path"]] if isinstance(written.get("path"), str) else ["src/lib.rs", "src/main.rs"]
                roots = (_resolved(folder, place) for place in places)
                root = next((Path(each) for each in roots if each is not None and each in self.tree), None)
                found[folder] = (str(name).replace("-", "_"), root)
        return found


_COMMENTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
_COMMAS = re.compile(r",(\s*[}\]])")


def _uncommented(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else " "


def _strings(value: object) -> list[str]:
    """A string, a list of them, or what is left of anything else."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]


# --- paths -----------------------------------------------------------------------------------------------------


def _folder(path: bytes) -> bytes:
    return path[: max(path.rfind(b"/"), 0)]


def _join(folder: bytes, name: bytes) -> Path:
    return Path(folder + b"/" + name if folder and name else folder or name)


def _upwards(folder: bytes) -> Iterator[bytes]:
    """The folder, the one around it, ... up to the top."""
    yield folder
    while folder:
        folder = _folder(folder)
        yield folder


def _resolved(folder: bytes, written: str) -> bytes | None:
    """A relative path as written, from a folder; None where it leads out of the repository."""
    return normal_path(written.encode("utf-8", "surrogateescape"), folder)


def _common(one: bytes, other: bytes) -> int:
    """How many folders two paths share from the top."""
    shared = 0
    for a, b in zip(one.split(b"/"), other.split(b"/"), strict=False):
        if a != b:
            break
        shared += 1
    return shared


def _nearest(found: Sequence[Path], path: Path) -> Path | None:
    """The one that shares most folders with a path, then the one nearest the top; None where that is a draw."""
    if len(found) < 2:
        return found[0] if found else None
    ranked = sorted((-_common(_folder(each), _folder(path)), each.count(b"/"), each) for each in found)
    return None if ranked[0][:2] == ranked[1][:2] else ranked[0][2]


def _stem(path: bytes) -> bytes:
    return path[path.rfind(b"/") + 1 :].split(b".")[0]


# --- schemes ---------------------------------------------------------------------------------------------------


_LAST = re.compile(r"[./:\\]+")


class _Scheme:
    """How one language spells modules."""

    def __init__(self, modules: Modules, rules: Rules) -> None:
        self.modules, self.tree, self.rules = modules, modules.tree, rules

    def bound(self, imported: Import, path: Path, outline: Outline) -> Sequence[Binding]:
        """What an import brings; where it is nothing of this snapshot, the names that come from outside."""
        found = [binding for binding in self.bind(imported, path, outline) if binding.files]
        if found:
            return found
        aliases = [alias for _, alias in imported.names] or [imported.module, _LAST.split(imported.module)[-1]]
        return [Binding(alias, (), at=imported.at) for alias in dict.fromkeys(aliases) if alias not in ("", "*", "_")]

    def bind(self, imported: Import, path: Path, outline: Outline) -> Iterator[Binding]:
        return iter(())

    def file(self, stem: bytes) -> Path | None:
        """The file that a path without extension means: itself, with an extension, or the index of a folder."""
        for extension in self.rules.extensions:
            if (found := Path(stem + b"." + extension.encode())) in self.tree:
                return found
        return self.index(stem)

    def index(self, folder: bytes) -> Path | None:
        for name in self.rules.index:
            for extension in self.rules.extensions:
                if (found := _join(folder, f"{name}.{extension}".encode())) in self.tree:
                    return found
        return None

    def below_roots(self, stem: bytes, path: Path) -> Path | None:
        """The nearest file of that name below a folder that modules are looked for in."""
        ends = [stem + b"." + extension.encode() for extension in self.rules.extensions]
        ends += [_join(stem, f"{n}.{e}".encode()) for n in self.rules.index for e in self.rules.extensions]
        found = [each for end in ends for each in self.tree.ending(end) if self.is_root(each[: -len(end)], path)]
        return _nearest(found, path) or (found[0] if self.rules.packages and found else None)

    def is_root(self, root: bytes, path: Path) -> bool:
        """Whether modules are looked for in a folder (with its slash): around the file, or by its name."""
        if path.startswith(root) or "*" in self.rules.roots:
            return True
        return _stem(root[:-1]).decode("utf-8", "replace") in self.rules.roots


class _Modules(_Scheme):
    def bind(self, imported: Import, path: Path, outline: Outline) -> Iterator[Binding]:
        parts = [self.styled(part) for part in imported.module.split(self.rules.separator) if part]
        base = self.base(path, imported.relative) if imported.relative else None
        if imported.relative and base is None:
            return
        own = self.find(parts, base, path)
        whole = imported.module.split(self.rules.separator)[-1] if self.rules.inline else imported.module
        for name, alias in imported.names or (("", whole),):
            inner = self.find([*parts, self.styled(name)], base, path) if name and name != "*" else None
            files = () if own is None else (own,)
            if name in ("", "*"):
                everything = name == "*" and alias == "*"
                opens = everything or (self.rules.inline and not imported.names)
                yield Binding("" if everything else alias, files, open=opens, at=imported.at)
            elif inner is not None and inner != own:
                yield Binding(alias, (inner,), at=imported.at)
            else:
                yield Binding(alias, files, name, at=imported.at)

    def styled(self, part: str) -> bytes:
        if self.rules.style == "snake":
            part = _HUMP.sub("_", part).lower()
        elif self.rules.style == "lower":
            part = part[:1].lower() + part[1:]
        return part.encode("utf-8", "surrogateescape")

    def base(self, path: Path, dots: int) -> bytes | None:
        folder = _folder(path)
        for _ in range(dots - 1):
            if not folder:
                return None
            folder = _folder(folder)
        return folder

    def find(self, parts: Sequence[bytes], base: bytes | None, path: Path) -> Path | None:
        stem = b"/".join(parts)
        if base is not None:
            return self.file(_join(base, stem)) if stem else self.index(base)
        return self.below_roots(stem, path) if stem else None

    def is_root(self, root: bytes, path: Path) -> bool:
        """A folder that is itself a package is no place where modules are looked for."""
        return (not root or self.index(root[:-1]) is None) and super().is_root(root, path)


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _Paths(_Scheme):
    def bind(self, imported: Import, path: Path, outline: Outline) -> Iterator[Binding]:
        found = self.find(imported, path)
        if found is None:
            return
        if not imported.names:
            yield Binding("", (found,), open=not self.rules.packages, at=imported.at)
        for name, alias in imported.names:
            opens = alias == "*"
            member = "" if name in ("*", "") else name
            yield Binding("" if opens else alias, (found,), member, open=opens, at=imported.at)

    def find(self, imported: Import, path: Path) -> Path | None:
        written = imported.module.partition("?")[0]
        marked = {"dot": written.startswith("."), "marked": imported.relative > 0}.get(self.rules.beside, True)
        if marked:
            place = _resolved(_folder(path), written)
            found = None if place is None else self.at(place)
            if found is not None or not (self.rules.anywhere or self.rules.beside == "always"):
                return found
        if self.rules.packages and (found := self.package(written, path)) is not None:
            return found
        return self.rooted(written, path, marked and self.rules.anywhere)

    def at(self, place: bytes) -> Path | None:
        """The file a path means: as written, with what is really there for its extension, or without one."""
        if place in self.tree:
            return Path(place)
        stem, dot, extension = place.rpartition(b".")
        for other in self.rules.swaps.get(extension.decode("utf-8", "replace"), ()) if dot else ():
            if (found := Path(stem + b"." + other.encode())) in self.tree:
                return found
        return self.file(place)

    def rooted(self, written: str, path: Path, anywhere: bool) -> Path | None:
        if not self.rules.roots and not anywhere:
            return None
        place = _resolved(b"", re.sub(r"^(?:\.\.?/)+", "", written))
        if not place:
            return None
        exact = [each for each in self.tree.ending(place) if anywhere or self.is_root(each[: -len(place)], path)]
        return _nearest(exact, path) if exact else self.below_roots(place, path)

    # --- names of packages, and patterns for them (JavaScript, Dart)

    def package(self, written: str, path: Path) -> Path | None:
        if written.startswith("package:"):
            name, _, rest = written.removeprefix("package:").partition("/")
            folder = self.modules.dart_packages.get(name)
            return None if folder is None else self.at(_join(folder, b"lib/" + rest.encode()))
        return self.mapped(written, path) or self.workspace(written)

    def mapped(self, written: str, path: Path) -> Path | None:
        """By the `paths` of the nearest tsconfig.json that has some; the longest fixed part wins."""
        for folder in _upwards(_folder(path)):
            patterns = self.modules.type_paths.get(folder, ())
            for pattern, places in sorted(patterns, key=lambda pair: -len(pair[0].partition("*")[0])):
                before, star, after = pattern.partition("*")
                fits = written.startswith(before) and written.endswith(after) and len(written) >= len(pattern) - 1
                if fits if star else written == pattern:
                    middle = written[len(before) : len(written) - len(after)].encode()
                    for place in places:
                        if (found := self.at(place.replace(b"*", middle))) is not None:
                            return found
            if patterns:
                return None
        return None

    def workspace(self, written: str) -> Path | None:
        """A package of this repository by its name, and what is below it."""
        parts = written.split("/")
        name = "/".join(parts[: 2 if written.startswith("@") else 1])
        if name not in self.modules.node_packages:
            return None
        folder, manifest = self.modules.node_packages[name]
        rest = written[len(name) + 1 :]
        for place in _entries(manifest, rest):
            target = _resolved(folder, place)
            if target is not None and (found := self.at(target)) is not None:
                return found
        return None


def _entries(manifest: Mapping[str, Any], rest: str) -> Iterator[str]:
    """Where the source of a package's entry may lie: as its manifest says, what that is built from, by custom."""
    exports = manifest.get("exports")
    wanted = f"./{rest}" if rest else "."
    named = exports.get(wanted, exports if not rest else None) if isinstance(exports, dict) else exports
    told = list(_leaves(named, 4))
    if not rest:
        told = _strings([manifest.get(key) for key in ("source", "module", "main", "types")]) + told
    for place in told:
        plain = re.sub(r"\.d\.[mc]?ts$|\.[mc]?[jt]s$", "", place)
        yield from (place, plain, re.sub(r"^(\./)?(?:dist|build|lib|out|esm|cjs)(?:/(?:esm|cjs|src))?/", "src/", plain))
    yield from (
        (f"src/{rest}", rest, f"src/{rest}/index", f"lib/{rest}") if rest else ("src/index", "index", "lib/index")
    )


def _leaves(value: object, depth: int) -> Iterator[str]:
    """The texts in nested conditions of `exports`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth:
        for key, inner in value.items():
            if not str(key).startswith("./"):
                yield from _leaves(inner, depth - 1)


class _Packages(_Scheme):
    def bind(self, imported: Import, path: Path, outline: Outline) -> Iterator[Binding]:
        written = imported.module.strip(self.rules.separator + " ")
        if "/" in written:  # PHP's `require` names a path
            place = _resolved(_folder(path), written)
            if place in self.tree.paths:
                yield Binding("", (Path(place),), open=True, at=imported.at)
            return
        parts = written.split(self.rules.separator)
        alias = next((alias for name, alias in imported.names if name == "" and alias != "*"), parts[-1])
        everything = parts[-1] in ("*", "_") or ("*", "*") in imported.names
        if parts[-1] in ("*", "_"):
            parts.pop()
        if not parts:
            return
        found = self.type_of(parts, path)
        if everything:
            files = self.folder(parts, path) or ((found[0],) if found else ())
            yield Binding("", files, open=True, at=imported.at)
        elif found is not None:
            yield Binding(alias, (found[0],), found[1], at=imported.at)
        elif len(parts) > 1:
            yield Binding(alias, self.folder(parts[:-1], path), parts[-1], at=imported.at)

    def type_of(self, parts: Sequence[str], path: Path) -> tuple[Path, str] | None:
        """The file of a type, and what of the name lies in it: `a.b.C.d` -> `a/b/C.java`, `C.d`."""
        for count in range(len(parts), max(0, len(parts) - 3), -1):
            if self.rules.separator == "\\" and (mapped := self.prefixed(parts[:count])) is not None:
                return mapped, ".".join(parts[count - 1 :])
            tail = "/".join(parts[:count]).encode("utf-8", "surrogateescape")
            for extension in self.rules.extensions:
                if count > 1 and (found := self.tree.ending(tail + b"." + extension.encode())):
                    best = min(found, key=lambda each: (-_common(_folder(each), _folder(path)), each))
                    return best, ".".join(parts[count - 1 :])
        return None

    def prefixed(self, parts: Sequence[str]) -> Path | None:
        written = "\\".join(parts)
        for prefix, folder in self.modules.php_prefixes:
            if not prefix or written.startswith(prefix + "\\"):
                rest = written[len(prefix) :].strip("\\").replace("\\", "/")
                if (found := self.file(_join(folder, rest.encode("utf-8", "surrogateescape")))) is not None:
                    return found
        return None

    def folder(self, parts: Sequence[str], path: Path) -> tuple[Path, ...]:
        """The files of a package, wherever its folders lie: those nearest first."""
        found = self.tree.folders_ending("/".join(parts).encode("utf-8", "surrogateescape"))
        found.sort(key=lambda folder: (-_common(folder, _folder(path)), folder))
        files = [file for folder in found for file in self.modules.members(self.rules, folder)]
        return tuple(files[:MOST_FILES])


class _Folders(_Scheme):
    def bind(self, imported: Import, path: Path, outline: Outline) -> Iterator[Binding]:
        folder = self.folder(imported.module)
        if folder is None:
            return
        parts = [part for part in imported.module.split("/") if not re.fullmatch(r"v\d+", part)]
        alias = next((alias for _, alias in imported.names), parts[-1] if parts else "")
        files = self.modules.members(self.rules, folder)
        yield Binding("" if alias in (".", "_") else alias, files, open=alias == ".", at=imported.at)

    def folder(self, written: str) -> bytes | None:
        modules = self.modules.go_modules
        parts = written.split("/")
        for count in range(len(parts), 0, -1):
            if (root := modules.get("/".join(parts[:count]))) is not None:
                return _resolved(root, "/".join(parts[count:]))
        return None


def _inline_modules(at: int, outline: Outline) -> int:
    """How many modules written inside the file are around a place."""
    return sum(one.kind == "module" and one.span.start <= at < one.span.end for one in outline.definitions)


class _Crates(_Scheme):
    def bind(self, imported: Import, path: Path, outline: Outline) -> Iterator[Binding]:
        parts = [part.removeprefix("r#") for part in imported.module.split("::") if part]
        alias = next((alias for _, alias in imported.names), parts[-1] if parts else "")
        opens = bool(parts) and parts[-1] == "*"
        if opens:
            parts.pop()
        inline = _inline_modules(imported.at, outline) if parts[:1] == ["super"] else 0
        found = self.walk(parts, path, inline)
        if found is not None:
            file, member = found
            yield Binding("" if opens or alias == "_" else alias, (file,), ".".join(member), opens, imported.at)

    def walk(self, parts: Sequence[str], path: Path, inline: int) -> tuple[Path, Sequence[str]] | None:
        """Down the tree of modules as far as there are files; the rest is named in the last of them."""
        start = self.start(list(parts), path, inline)
        if start is None:
            return None
        file, rest = start
        while rest and (child := self.child(file, rest[0])) is not None:
            file, rest = child, rest[1:]
        return (file, rest) if file != path or rest else None

    def start(self, parts: list[str], path: Path, inline: int) -> tuple[Path, list[str]] | None:
        file: Path | None = path
        if not parts:
            return None
        if parts[0] == "crate":
            file = self.root(path)
            return None if file is None else (file, parts[1:])
        if parts[0] in ("self", "super"):
            while parts and parts[0] in ("self", "super") and file is not None:
                if parts.pop(0) == "super":
                    file, inline = (self.parent(file), 0) if not inline else (file, inline - 1)
            return None if file is None else (file, parts)
        for name, root in self.modules.crates.values():
            if name == parts[0] and root is not None:
                return root, parts[1:]
        return (path, parts) if self.child(path, parts[0]) is not None else None

    def crate(self, path: Path) -> bytes | None:
        return next((folder for folder in _upwards(_folder(path)) if folder in self.modules.crates), None)

    def root(self, path: Path) -> Path | None:
        """The file at the root of the crate a file belongs to; each test, example and binary is its own."""
        folder = self.crate(path)
        if folder is None:
            return None
        inside = path[len(folder) :].lstrip(b"/").split(b"/")
        if inside[0] in (b"tests", b"examples", b"benches") or inside[:2] == [b"src", b"bin"]:
            top = 2 if inside[0] == b"src" else 1
            own = _join(folder, b"/".join(inside[: top + 1]))
            return next((each for each in (own, Path(own + b".rs"), _join(own, b"main.rs")) if each in self.tree), None)
        return path if inside == [b"src", b"main.rs"] else self.modules.crates[folder][1]

    def inner_folder(self, file: Path) -> bytes:
        """Where the modules inside a file's module lie."""
        name = file[file.rfind(b"/") + 1 :]
        if name in (b"mod.rs", b"lib.rs", b"main.rs") or file == self.root(file):
            return _folder(file)
        return file.removesuffix(b".rs")

    def child(self, file: Path, name: str) -> Path | None:
        inside = _join(self.inner_folder(file), name.encode("utf-8", "surrogateescape"))
        return next((each for each in (Path(inside + b".rs"), _join(inside, b"mod.rs")) if each in self.tree), None)

    def parent(self, file: Path) -> Path | None:
        if file == self.root(file):
            return None
        folder = _folder(file)
        if file.endswith(b"/mod.rs"):
            folder = _folder(folder)
        beside = (_join(folder, b"mod.rs"), Path(folder + b".rs"), _join(folder, b"lib.rs"), _join(folder, b"main.rs"))
        return next((each for each in beside if each in self.tree and each != file), None) or self.root(file)


_SCHEMES: Mapping[str, type[_Scheme]] = {
    "modules": _Modules,
    "paths": _Paths,
    "packages": _Packages,
    "folders": _Folders,
    "crates": _Crates,
}
