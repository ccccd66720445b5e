"""What an import names, language by language: small repositories as a dict of path -> text, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from repo_provider import imports, syntax
from repo_provider.files import language_of, languages
from repo_provider.imports import Binding, Modules, Tree
from repo_provider.model import Import, Outline, Path


def modules(files: Mapping[str, str]) -> Modules:
    by_path = {Path(path.encode()): text.encode() for path, text in sorted(files.items())}
    return Modules(
        Tree(by_path), lambda language: imports.rules(language, languages()[language].imports), by_path.__getitem__
    )


def bindings(files: Mapping[str, str], importer: str) -> tuple[Binding, ...]:
    path, data = Path(importer.encode()), files[importer].encode()
    outline = syntax.outline(data, language_of(path, data).name)
    assert outline.complete
    return modules(files).bindings(path, outline)


def brought(files: Mapping[str, str], importer: str) -> list[tuple[str, str, str]]:
    """What an importer brings of this repository: alias (`*` where names come in as they are), file, member."""
    return [(one.alias or "*", one.files[0].decode(), one.member) for one in bindings(files, importer) if one.files]


PACKAGE = {"src/app/__init__.py": "", "src/app/util.py": "", "src/app/db/__init__.py": "", "src/app/db/pool.py": ""}
CRATE = {
    "Cargo.toml": '[workspace]\nmembers = ["core", "web"]\n',
    "core/Cargo.toml": '[package]\nname = "my-core"\n',
    "core/src/lib.rs": "pub mod net;\n",
    "core/src/net/mod.rs": "mod retry;\n",
    "core/src/net/retry.rs": "",
    "web/Cargo.toml": '[package]\nname = "web"\n[lib]\nname = "web_lib"\npath = "src/entry.rs"\n',
    "web/src/entry.rs": "",
    "web/src/routes.rs": "",
}
MAVEN = "core/src/main/java/com/acme"
TABLE: dict[str, tuple[dict[str, str], str, str, list[tuple[str, str, str]]]] = {
    "python: a package in a source folder": (
        PACKAGE,
        "tests/test_util.py",
        "import os\nimport app\nimport app.util as u\nimport app.db.pool\n"
        "from app import util\nfrom app.db import Pool as P\n",
        [
            ("app", "src/app/__init__.py", ""),
            ("u", "src/app/util.py", ""),
            ("app.db.pool", "src/app/db/pool.py", ""),
            ("util", "src/app/util.py", ""),
            ("P", "src/app/db/__init__.py", "Pool"),
        ],
    ),
    "python: relative": (
        PACKAGE,
        "src/app/db/query.py",
        "from . import pool\nfrom .pool import Pool\nfrom ..util import retry\n"
        "from .. import util as u\nfrom ... import beyond\n"
        "from .pool import *\n",
        [
            ("pool", "src/app/db/pool.py", ""),
            ("Pool", "src/app/db/pool.py", "Pool"),
            ("retry", "src/app/util.py", "retry"),
            ("u", "src/app/util.py", ""),
            ("*", "src/app/db/pool.py", ""),
        ],
    ),
    "python: a module beside a script, and none inside a package": (
        {**PACKAGE, "tools/helper.py": "", "src/app/types.py": ""},
        "tools/run.py",
        "import helper\nimport types\nimport util\n",
        [("helper", "tools/helper.py", "")],
    ),
    "javascript: paths, indexes, require": (
        {"lib/a.js": "", "lib/b/index.js": "", "lib/c.mjs": "", "index.js": "", "data.json": "{}"},
        "lib/main.js",
        "import A, { x as y } from './a'\nimport * as b from './b'\n"
        "const c = require('./c.mjs')\nconst root = require('..')\n"
        "import 'react'\nimport data from '../data.json'\n",
        [
            ("A", "lib/a.js", "default"),
            ("y", "lib/a.js", "x"),
            ("b", "lib/b/index.js", ""),
            ("c", "lib/c.mjs", ""),
            ("root", "index.js", ""),
            ("data", "data.json", "default"),
        ],
    ),
    "typescript: written .js, meant .ts": (
        {"src/a.ts": "", "src/b.tsx": "", "src/c/index.ts": "", "src/d.d.ts": ""},
        "src/main.ts",
        "import { a } from './a.js'\nimport { b } from './b.jsx'\nimport { c } from './c'\n"
        "import type { d } from './d'\n"
        "export { e } from './a'\n",
        [
            ("a", "src/a.ts", "a"),
            ("b", "src/b.tsx", "b"),
            ("c", "src/c/index.ts", "c"),
            ("d", "src/d.d.ts", "d"),
            ("e", "src/a.ts", "e"),
        ],
    ),
    "typescript: paths of tsconfig.json, with comments, inherited": (
        {
            "tsconfig.base.json": '{ // shared\n "compilerOptions": {"baseUrl": ".", '
            '"paths": {"@/*": ["src/*"], "~cfg": ["cfg/main.ts"],},},\n}',
            "app/tsconfig.json": '{"extends": "../tsconfig.base.json"}',
            "src/util/net.ts": "",
            "cfg/main.ts": "",
        },
        "app/main.ts",
        "import { get } from '@/util/net'\nimport cfg from '~cfg'\n"
        "import { n } from 'src/util/net'\nimport { no } from '@/nowhere'\n",
        [
            ("get", "src/util/net.ts", "get"),
            ("cfg", "cfg/main.ts", "default"),
            ("n", "src/util/net.ts", "n"),
        ],
    ),
    "typescript: packages of a workspace by name": (
        {
            "packages/core/package.json": '{"name": "@acme/core", "main": "dist/index.js", '
            '"exports": {".": {"import": "./dist/index.mjs"}, "./net": {"types": "./dist/net/index.d.ts"}}}',
            "packages/core/src/index.ts": "",
            "packages/core/src/net/index.ts": "",
            "packages/core/src/deep/one.ts": "",
            "packages/plain/package.json": '{"name": "plain"}',
            "packages/plain/index.js": "",
            "package.json": "not json",
        },
        "packages/web/main.ts",
        "import { a } from '@acme/core'\nimport { b } from '@acme/core/net'\nimport { c } from '@acme/core/deep/one'\n"
        "import p from 'plain'\nimport o from '@acme/other'\n",
        [
            ("a", "packages/core/src/index.ts", "a"),
            ("b", "packages/core/src/net/index.ts", "b"),
            ("c", "packages/core/src/deep/one.ts", "c"),
            ("p", "packages/plain/index.js", "default"),
        ],
    ),
    "vue: a script inside a component": (
        {"src/A.vue": "", "src/api.ts": ""},
        "src/B.vue",
        "<template/>\n<script>\nimport A from './A.vue'\nimport { get } from './api'\n</script>\n",
        [("A", "src/A.vue", "default"), ("get", "src/api.ts", "get")],
    ),
    "go: packages below the module of go.mod": (
        {
            "go.mod": "module example.com/acme/v2\n\ngo 1.22\n",
            "acme.go": "package acme\n",
            "net/net.go": "package net\n",
            "net/a.go": "package net\n",
            "net/net_test.go": "package net\n",
            "tools/go.mod": "module example.com/tools\n",
            "tools/x/x.go": "package x\n",
        },
        "cmd/main.go",
        'package main\n\nimport (\n\t"fmt"\n\t"example.com/acme/v2"\n\tn '
        '"example.com/acme/v2/net"\n\t"example.com/tools/x"\n'
        '\t. "example.com/acme/v2/net"\n\t"example.com/other"\n)\n',
        [("acme", "acme.go", ""), ("n", "net/net.go", ""), ("x", "tools/x/x.go", ""), ("*", "net/net.go", "")],
    ),
    "rust: crate, self, super, mod, another crate of the workspace": (
        CRATE,
        "core/src/net/client.rs",
        "use crate::net::retry::Policy;\nuse super::retry;\nuse super::super::net::Thing as T;\n"
        "use web_lib::routes::{get, post};\n"
        "use std::io;\nuse super::*;\n",
        [
            ("Policy", "core/src/net/retry.rs", "Policy"),
            ("retry", "core/src/net/retry.rs", ""),
            ("T", "core/src/net/mod.rs", "Thing"),
            ("get", "web/src/routes.rs", "get"),
            ("post", "web/src/routes.rs", "post"),
            ("*", "core/src/net/mod.rs", ""),
        ],
    ),
    "rust: the root of a crate and of its tests": (
        {**CRATE, "core/tests/common/mod.rs": ""},
        "core/tests/it.rs",
        "mod common;\nuse my_core::net::retry::Policy;\nuse crate::common::setup;\n",
        [
            ("common", "core/tests/common/mod.rs", ""),
            ("Policy", "core/src/net/retry.rs", "Policy"),
            ("setup", "core/tests/common/mod.rs", "setup"),
        ],
    ),
    "java: types, nested types, static members, whole packages": (
        {f"{MAVEN}/net/Client.java": "", f"{MAVEN}/net/Retry.java": "", f"{MAVEN}/Main.java": ""},
        "core/src/test/java/com/acme/MainTest.java",
        "import com.acme.net.Client;\nimport com.acme.net.Retry.Policy;\nimport static com.acme.net.Retry.limit;\n"
        "import java.util.List;\nimport com.acme.net.*;\nclass MainTest {}\n",
        [
            ("Client", f"{MAVEN}/net/Client.java", "Client"),
            ("Policy", f"{MAVEN}/net/Retry.java", "Retry.Policy"),
            ("limit", f"{MAVEN}/net/Retry.java", "Retry.limit"),
            ("*", f"{MAVEN}/net/Client.java", ""),
        ],
    ),
    "kotlin: functions of a package, aliases, types of Java": (
        {"src/main/kotlin/acme/net/Http.kt": "", "src/main/java/acme/net/Old.java": ""},
        "src/main/kotlin/acme/Main.kt",
        "package acme\nimport acme.net.get\nimport acme.net.Old\nimport acme.net.Http as H\nimport kotlin.io.println\n",
        [
            ("get", "src/main/kotlin/acme/net/Http.kt", "get"),
            ("Old", "src/main/java/acme/net/Old.java", "Old"),
            ("H", "src/main/kotlin/acme/net/Http.kt", "Http"),
        ],
    ),
    "scala: several of a package, renamed, all": (
        {"src/main/scala/acme/net/Client.scala": "", "src/main/scala/acme/net/Retry.scala": ""},
        "src/main/scala/acme/Main.scala",
        "package acme\nimport acme.net.{Client, Retry => R}\nimport acme.net._\nobject Main\n",
        [
            ("Client", "src/main/scala/acme/net/Client.scala", "Client"),
            ("R", "src/main/scala/acme/net/Retry.scala", "Retry"),
            ("*", "src/main/scala/acme/net/Client.scala", ""),
        ],
    ),
    "c: beside the file, below include, anywhere for quotes": (
        {"include/uv.h": "", "src/uv-common.h": "", "src/unix/internal.h": "", "test/stdio.h": ""},
        "src/unix/loop.c",
        '#include "internal.h"\n#include "uv-common.h"\n#include <uv.h>\n#include <stdio.h>\n',
        [("*", "src/unix/internal.h", ""), ("*", "src/uv-common.h", ""), ("*", "include/uv.h", "")],
    ),
    "c++: a path below include": (
        {"include/fmt/core.h": "", "include/fmt/format.h": ""},
        "src/format.cc",
        '#include "fmt/core.h"\n#include <fmt/format.h>\n#include <string>\n',
        [("*", "include/fmt/core.h", ""), ("*", "include/fmt/format.h", "")],
    ),
    "ruby: relative and by the load path": (
        {"lib/rack.rb": "", "lib/rack/builder.rb": "", "test/helper.rb": ""},
        "test/spec_rack.rb",
        "require 'rack'\nrequire 'rack/builder'\nrequire_relative 'helper'\n"
        "require 'json'\nrequire_relative '../lib/rack'\n",
        [
            ("*", "lib/rack.rb", ""),
            ("*", "lib/rack/builder.rb", ""),
            ("*", "test/helper.rb", ""),
            ("*", "lib/rack.rb", ""),
        ],
    ),
    "php: prefixes of composer.json": (
        {
            "composer.json": '{"autoload": {"psr-4": {"App\\\\": "src/", "App\\\\Db\\\\": ["db"]}}}',
            "src/Models/User.php": "",
            "db/Pool.php": "",
            "inc/x.php": "",
        },
        "index.php",
        "<?php\nuse App\\Models\\User;\nuse App\\Db\\Pool as P;\nuse App\\Nothing;\nrequire_once 'inc/x.php';\n",
        [("User", "src/Models/User.php", "User"), ("P", "db/Pool.php", "Pool"), ("*", "inc/x.php", "")],
    ),
    "elixir: names in snake case": (
        {"lib/acme/http_client.ex": "", "lib/acme.ex": ""},
        "lib/acme/web.ex",
        "defmodule Acme.Web do\n  alias Acme.HTTPClient\n  import Enum\n  use Acme\nend\n",
        [("HTTPClient", "lib/acme/http_client.ex", ""), ("Acme", "lib/acme.ex", "")],
    ),
    "lua: dots are folders": (
        {"lua/acme/init.lua": "", "lua/acme/net.lua": ""},
        "plugin/main.lua",
        'local a = require("acme")\nlocal net = require("acme.net")\nlocal x = require("other")\n',
        [("a", "lua/acme/init.lua", ""), ("net", "lua/acme/net.lua", "")],
    ),
    "haskell": (
        {"src/Data/Acme.hs": ""},
        "app/Main.hs",
        "module Main where\nimport Data.Acme (go)\nimport Data.List\n",
        [("go", "src/Data/Acme.hs", "go")],
    ),
    "perl": (
        {"lib/Acme/Net.pm": ""},
        "bin/run.pl",
        "use strict;\nuse Acme::Net;\n",
        [("Net", "lib/Acme/Net.pm", "")],
    ),
    "zig": (
        {"src/net.zig": ""},
        "src/main.zig",
        'const std = @import("std");\nconst net = @import("net.zig");\n',
        [("net", "src/net.zig", "")],
    ),
    "dart: packages of the repository": (
        {"pubspec.yaml": "name: acme\n", "lib/net.dart": "", "lib/src/util.dart": ""},
        "lib/main.dart",
        "import 'net.dart';\nimport 'package:acme/src/util.dart';\nimport 'package:flutter/material.dart';\n",
        [("*", "lib/net.dart", ""), ("*", "lib/src/util.dart", "")],
    ),
    "shell": (
        {"lib/log.sh": ""},
        "run.sh",
        "#!/bin/sh\n. lib/log.sh\nsource ./lib/log.sh\n",
        [("*", "lib/log.sh", "")] * 2,
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_an_import_names_the_file_that_it_means(case: str) -> None:
    files, importer, text, expected = TABLE[case]
    assert expected == brought({**files, importer: text}, importer)


def test_what_is_not_in_the_repository_is_known_to_come_from_outside() -> None:
    files = {"a.py": "import os\nfrom numpy import array as arr\nimport a.b.c\n"}
    assert [("os", ()), ("arr", ()), ("a.b.c", ()), ("c", ())] == [
        (one.alias, one.files) for one in bindings(files, "a.py")
    ]


def test_a_draw_between_files_is_no_answer() -> None:
    files = {"one/util.h": "", "two/util.h": "", "main.c": '#include "util.h"\n'}
    assert [] == brought(files, "main.c")
    assert [("*", "one/util.h", "")] == brought({**files, "one/deep/main.c": files["main.c"]}, "one/deep/main.c")


def test_paths_that_lead_out_of_the_repository_name_nothing() -> None:
    files = {"src/a.ts": "import x from '../../../etc/passwd'\nimport y from '..'\n", "etc/passwd": ""}
    assert [] == brought(files, "src/a.ts")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"name": 1, "exports": [1], "compilerOptions": []}', "[" * 9000]
)
def test_a_broken_build_file_costs_what_it_would_say(text: str) -> None:
    names = ("package.json", "tsconfig.json", "composer.json", "Cargo.toml", "go.mod", "pubspec.yaml")
    files = dict.fromkeys(names, text) | {"a.ts": "import x from './b'\nimport y from 'pkg'\n", "b.ts": ""}
    assert [("x", "b.ts", "default")] == brought(files, "a.ts")
    for other, source in (
        ("a.go", 'package a\nimport "x/y"\n'),
        ("a.rs", "use crate::b;\n"),
        ("a.php", "<?php use A\\B;"),
    ):
        assert [] == brought({**files, other: source}, other)


def test_a_tsconfig_that_extends_itself_is_read_once() -> None:
    files = {"tsconfig.json": '{"extends": "./tsconfig.json"}', "a.ts": "import x from 'y'\n"}
    assert [] == brought(files, "a.ts")


def test_go_files_see_the_names_of_their_folder_but_not_its_tests() -> None:
    files = {"net/net.go": "", "net/a.go": "", "net/a_test.go": "", "other.go": ""}
    assert (b"net/net.go", b"net/a.go") == modules(files).shared(Path(b"net/b.go"), "go")
    assert () == modules(files).shared(Path(b"net/b.go"), "python")


def test_a_language_without_a_table_has_no_imports_and_names_from_anywhere() -> None:
    rules = imports.rules("cobol", {})
    assert ("cobol", True, "") == (rules.family, rules.loose, rules.scheme)
    outline = Outline("sql", imports=(Import("a.b"),))
    assert () == modules({"a.sql": ""}).bindings(Path(b"a.sql"), outline)[0].files


def test_every_table_of_a_manifest_is_understood() -> None:
    for language in languages().values():
        rules = imports.rules(language.name, language.imports)
        assert rules.scheme in ("", "modules", "paths", "packages", "folders", "crates")
        assert rules.family
        assert language.imports.keys() <= set(imports.Rules.__struct_fields__)
