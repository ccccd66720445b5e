"""What a file is, from its path and first bytes."""

from __future__ import annotations

import pytest

from repo_provider.files import language_of, languages, traits, unserved
from repo_provider.model import Path
from tests.faults import fault


def language(path: str, data: bytes = b"") -> str:
    return language_of(Path(path.encode()), data).name


@pytest.mark.parametrize(
    ("expected", "path", "data"),
    [
        ("python", "src/a.py", b""),
        ("python", "stubs/a.pyi", b""),
        ("python", "data/X/mod.PY", b""),
        ("python", "bin/run", b"#!/usr/bin/env python3\n"),
        ("python", "bin/run", b"#!/usr/bin/python3.11 -u\n"),
        ("python", "bin/run", b"#!/usr/bin/env -S uv run\n"),
        ("javascript", "tool", b"#!/usr/bin/env node\n"),
        ("javascript", "a.mjs", b""),
        ("tsx", "ui/Foo.tsx", b""),
        ("python", "conf.py.in", b""),
        ("python", "weird", b"# vim: set ft=python :\n"),
        ("cpp", "Foo.h", b"// -*- C++ -*-\n"),
        ("text", "a.unknown", b"int main() {}\n"),
        ("text", "Cargo.lock", b""),
        ("text", "package-lock.json", b"{}"),
        ("python", "a.py", b"# -*- coding: utf-8 -*-\n"),
        ("c", "a.h", b"#include <stdio.h>\nint f(void);\n"),
        ("cpp", "a.h", b"#pragma once\nnamespace net {\nint f();\n}\n"),
        ("cpp", "a.h", b"#include <vector>\n"),
        ("markdown", "README", b""),
        ("dockerfile", "Dockerfile", b""),
        ("dockerfile", "deploy/Dockerfile.prod", b""),
        ("dockerfile", "a.dockerfile", b""),
        ("make", "Makefile", b""),
        ("make", "Makefile.am", b""),
        ("cmake", "CMakeLists.txt", b""),
        ("ruby", "Rakefile", b""),
        ("groovy", "Jenkinsfile", b""),
        ("ini", ".editorconfig", b""),
        ("bash", ".bashrc", b""),
        ("bash", "run", b"#!/bin/sh -e\n"),
        ("ruby", "run", b"#!/usr/bin/env ruby\n"),
        ("perl", "run", b"#!/usr/bin/perl -w\n"),
        ("php", "run", b"#!/usr/bin/env php\n"),
        ("typescript", "run", b"#!/usr/bin/env -S deno run\n"),
        ("elixir", "run", b"#!/usr/bin/env elixir\n"),
        ("r", "run", b"#!/usr/bin/env Rscript\n"),
        ("swift", "run", b"#!/usr/bin/swift\n"),
        ("text", "run", b"#!/opt/unheard/of\n"),
        ("ruby", "weird", b"# -*- mode: ruby -*-\n"),
        ("ruby", "weird", b"#!/bin/sh\n# -*- mode: ruby; indent: 2 -*-\n"),
        ("typescript", "weird", b"x\n" * 300 + b"// vim: ts=2 ft=typescript\n"),
        ("c", "a.h", b""),
        ("c", "a.h", b'#ifdef __cplusplus\nextern "C" {\n#endif\nint f(void);\n'),
        ("c", "a.h", b"struct a { int class; };\n"),
        ("cpp", "a.h", b"class A : public B {\n"),
        ("cpp", "a.h", b"template <typename T>\nT f(T a);\n"),
        ("cpp", "a.h", b"int f(int a) noexcept;\n"),
        ("cpp", "a.h", b"// a licence\n" * 400 + b"using std::string;\n"),
        ("objc", "a.h", b"#import <Foundation/Foundation.h>\n"),
        ("objc", "a.h", b"@class Foo;\nvoid f(Foo *);\n"),
        ("objc", "a.h", b"NS_ASSUME_NONNULL_BEGIN\n"),
        ("objc", "a.m", b"#include <stdio.h>\n"),
        ("text", "a.m", b"% Of a matrix.\nfunction y = f(x)\n"),
        ("text", "a.pl", b"% Facts.\n:- module(a, [b/1]).\n"),
        ("perl", "a.pl", b"use strict;\n%a = ();\n"),
        ("xml", "de.ts", b'<?xml version="1.0"?>\n<!DOCTYPE TS>\n'),
        ("typescript", "de.ts", b"export const a = 1\n"),
        ("notebook", "a.ipynb", b"{}"),
        ("hcl", "main.tf", b""),
        ("python", "MODULE.bazel", b""),
        ("python", "third_party/BUILD.bazel", b""),
        ("text", "build.log", b""),
        ("scala", "build.mill", b""),
        ("bash", ".bash_aliases", b""),
        ("ruby", "Berksfile", b""),
        ("lua", ".luacheckrc", b""),
        ("kotlin", "build.gradle.kts", b""),
        ("groovy", "build.gradle", b""),
        ("typescript", "a.d.cts", b""),
        ("php", "inc/menu.inc", b"<?php\nfunction f() {}\n"),
        ("cpp", "lib/tables.inc", b"static int f(void);\n"),
        ("cpp", "a.h", b"struct A { A(); ~A(); };\n"),
        ("cpp", "a.h", b"struct A : B {\n  int x;\n};\n"),
        ("c", "a.h", b"struct a { unsigned x : 3; };\n"),
        ("text", "a.pl", b"% Facts.\n\nparent(a, b).\nolder(X, Y) :- parent(X, Y).\n"),
        ("perl", "a.pl", b"print(1);\n"),
        ("text", "a.m", b"(* Of powers. *)\nf[x_] := x^2\n"),
    ],
)
@fault(81)
def test_the_language_comes_from_modeline_name_extension_or_shebang(expected: str, path: str, data: bytes) -> None:
    assert expected == language(path, data)


@pytest.mark.parametrize(
    ("expected", "path", "data"),
    [
        (None, "a.py", b"def f(): pass\n"),
        (None, "latin1.py", b"# gar\xe7on\n"),
        (None, "a.cs", b"\xff\xfec\0l\0a\0s\0s\0"),
        ("binary", "nul.py", b"x = 1\n\0\n"),
        ("binary", "a.pdf", b"%PDF-1.7\n" + b"text" * 10),
        ("binary", "a.bin", bytes(range(1, 32)) * 10),
        ("lfs_pointer", "a.psd", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
        ("minified", "dist/a.min.js", b"function a(){return 1};" * 100),
        ("minified", "a.js", b"function a(){return 1};" * 100),
        (None, "a.md", b"A long paragraph of prose, all on one line. " * 40),
        (None, "a.js", b"function a() {\n  return 1;\n}\n" * 1000),
        (None, "empty.py", b""),
        ("minified", "bundle.js", b"var a=1;" * 2000 + b"\n//# sourceMappingURL=bundle.js.map\n"),
        ("minified", "site.min.css", b"a{b:c}" * 200),
        (None, "data.csv", b"1,2,3," * 100 + b"\n"),
    ],
)
def test_a_file_that_is_not_served_says_why(expected: str | None, path: str, data: bytes) -> None:
    assert expected == unserved(Path(path.encode()), data)  # faults 82, 87


@pytest.mark.parametrize(
    ("expected", "path", "data"),
    [
        (set(), "src/a.py", b"import os\n"),
        ({"test"}, "tests/test_a.py", b""),
        ({"test"}, "pkg/a_test.go", b""),
        ({"test"}, "src/app.spec.ts", b""),
        ({"test"}, "core/src/main/FooTest.java", b""),
        ({"test"}, "core/src/jvmTest/kotlin/Foo.kt", b""),
        (set(), "src/Latest.java", b""),
        (set(), "src/contest/a.py", b""),
        ({"vendored"}, "vendor/x/a.py", b""),
        ({"vendored"}, "web/node_modules/y/a.js", b""),
        ({"generated"}, "gen/a_pb2.py", b"# Generated by the protocol buffer compiler.  DO NOT EDIT!\n"),
        ({"generated"}, "a.go", b"// Code generated by mockgen. DO NOT EDIT.\npackage a\n"),
        ({"generated"}, "api.pb.go", b"package a\n"),
        ({"generated"}, "lib/user.g.dart", b"part of 'user.dart';\n"),
        ({"generated"}, "Form.Designer.cs", b"class Form {}\n"),
        ({"generated"}, "schema.ts", b"/* eslint-disable */\n/**\n * This file was automatically generated.\n */\n"),
        ({"generated"}, "parser.rb", b"#\n# DO NOT MODIFY!!!!\n# This file is automatically generated by Racc.\n"),
        ({"generated"}, "a.rs", b"// @generated\n"),
        (set(), "a.go", b'package a\n\nconst s = "Code generated by hand"\n'),
        ({"generated"}, "a.c", b"/*\n   automatically generated\n*/\n"),
        ({"generated", "vendored"}, "dist/a.min.js", b""),
        ({"lockfile"}, "package-lock.json", b"{}"),
        ({"lockfile"}, "yarn.lock", b""),
        ({"example"}, "examples/app.py", b""),
        ({"bench"}, "benches/parse.rs", b""),
        ({"docs"}, "docs/guide.md", b""),
        ({"docs"}, "CHANGELOG.md", b""),
    ],
)
@fault(107)
def test_traits_mark_what_is_not_hand_written_main_code(expected: set[str], path: str, data: bytes) -> None:
    assert expected == set(traits(Path(path.encode()), data))


@pytest.mark.parametrize(
    ("expected", "path", "data"),
    [
        ([b"f", b"C", b"g", b"MAX"], "a.py", b"def f():\nclass C:\n    async def g(self):\nMAX = 3\nx == 4\n"),
        ([b"f", b"A", b"m", b"g"], "a.js", b"function f() {\nclass A {\n  m(x) {\n  if (x) {\nconst g = () => 1\n"),
        ([b"M", b"T", b"K"], "a.go", b"func (r *T) M() {\ntype T struct {\nconst K = 1\n"),
        ([b"f", b"S"], "a.rs", b"pub(crate) async fn f() {\npub struct S;\n"),
        (
            [b"A", b"go"],
            "A.java",
            b"public final class A {\n  private static <T> List<T> go(T t) {\n    return f(t);\n",
        ),
        ([b"N", b"f"], "a.c", b"#define N 3\nstatic int *f(int a)\n{\n  g(a);\n"),
        ([b"ns", b"A", b"run"], "a.cc", b"namespace ns {\nclass A : public B {\nvoid A::run() {\n"),
        ([b"Set up"], "a.md", b"# Set up\ntext\n"),
    ],
)
def test_the_line_pattern_of_a_language_finds_defined_names(expected: list[bytes], path: str, data: bytes) -> None:
    assert expected == language_of(Path(path.encode()), data).names(data)


def test_every_manifest_is_read_and_the_plain_language_is_there() -> None:
    assert "text" in languages()
    assert list(languages()) == sorted(languages())
