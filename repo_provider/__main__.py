"""`python -m repo_provider` and the `repo-provider` command: which edge was asked for.

A host waits for the acknowledgement of `serve`, so that one is recognised here, before any command-line framework,
git library or parser is imported; so is `mcp`, whose stdout is its client's alone. Everything else is `cli`'s. Only
this module and `cli` read the environment.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from repo_provider.httpd import Asgi, Mount
    from repo_provider.session import Provider, Service, Signer
    from repo_provider.settings import Settings, Surroundings


def main() -> None:
    """Run the command that was typed; the process ends with its exit code."""
    os.putenv("OPENBLAS_NUM_THREADS", "1")  # numpy would start one a core, and interrupt us where it gets none
    arguments = sys.argv[1:]
    if arguments[:1] in (["serve"], ["mcp"]) and not {"-h", "--help"} & set(arguments):
        {"serve": _serve, "mcp": _mcp}[arguments[0]](arguments[1:])
    try:
        from repo_provider.cli import run

        code = run(arguments, surroundings())
    except KeyboardInterrupt:  # before the command line was there to say so
        code = 130
    sys.exit(code)


def _serve(arguments: list[str]) -> NoReturn:
    from repo_provider import stdio
    from repo_provider.cache import share_one_heap

    stdin, stdout = stdio.claim()  # before anything else is imported: imports may warn or print
    share_one_heap()  # before there are threads

    from repo_provider.errors import ProviderError
    from repo_provider.settings import read, resolve

    def log(text: str) -> None:
        stdio.log(f"repo-provider: {text}")

    try:
        settings = resolve(read(arguments), surroundings())
        service = serving(settings, log=stdio.log, say=log)
    except ProviderError as error:
        log(error.message)
        stdio.leave(2)
    for note in settings.notes:
        log(note)
    if settings.http is None:
        stdio.leave(stdio.serve(service, stdin, stdout, deadline=settings.deadline or 0))
    try:
        from repo_provider import httpd

        def announce(url: str) -> None:
            os.write(stdout, f"{url}\n".encode())

        mount = _mounting(service, settings)
        stdio.leave(httpd.serve(service, settings.http, announce, deadline=settings.deadline, mcp=mount))
    except ProviderError as error:
        log(error.message)
        stdio.leave(2)
    except KeyboardInterrupt:  # before it listened
        stdio.leave(130)


def _mounting(service: Service, settings: Settings) -> Mount:
    """What `httpd` calls when the first agent asks: until then nothing of MCP is imported."""

    def mount() -> Asgi:
        from repo_provider.mcp_server import Mounted

        return Mounted(service.provider, settings, service.log)

    return mount


def _mcp(arguments: list[str]) -> NoReturn:
    from repo_provider import stdio

    stdin, stdout = stdio.claim()  # before anything else is imported: imports may warn or print

    from msgspec.structs import replace

    from repo_provider.errors import ProviderError
    from repo_provider.settings import MCP_DEADLINE, MCP_TAKES, read, resolve

    def log(text: str) -> None:
        stdio.log(f"repo-provider: {text}")

    try:
        typed = read(arguments, MCP_TAKES, "mcp")
        settings = resolve(replace(typed, deadline=typed.deadline or MCP_DEADLINE), surroundings())
    except ProviderError as error:
        log(error.message)
        stdio.leave(2)
    for note in settings.notes:
        log(note)
    try:
        from repo_provider import mcp_server

        mcp_server.serve(settings, stdin, stdout, fixed=typed.path is not None, log=log, leave=stdio.leave)
    except KeyboardInterrupt:  # before it listened
        stdio.leave(130)


def serving(
    settings: Settings, *, log: Callable[[str], None] = lambda text: None, say: Callable[[str], None] | None = None
) -> Service:
    """What speaks for a provider with these settings: its repository is opened when it is first asked.

    `log` is told of faults, `say` (else `log`) of what a user should know. Raises ProviderError where it cannot sign
    or count as it was told to.
    """
    from repo_provider.session import Service
    from repo_provider.settings import declared

    def load() -> Provider:
        from repo_provider.provider import Provider

        return Provider(settings, log=say or log)

    if settings.tokenizer is not None:
        from repo_provider.tokens import tokenizer_name

        tokenizer_name(settings.tokenizer)  # a wrong name is told now, a missing vocabulary by whoever asks
    return Service(*declared(settings), load, signer=_signer(settings), log=log)


def _signer(settings: Settings) -> Signer | None:
    if settings.sign is None:
        return None
    from time import time

    from repo_provider.attest import load_key, sign_result
    from repo_provider.protocol import ContextQueryResult, Instant, format_instant
    from repo_provider.session import Signer

    key, each = load_key(settings.sign.key_file, outside=settings.sign.outside), settings.sign.each

    def seal(result: ContextQueryResult) -> ContextQueryResult:
        issued_at = format_instant(Instant(int(time()))) or ""
        return sign_result(result, key, settings.name, issued_at, each=each)

    return Signer((key.published,), seal)


def surroundings() -> Surroundings:
    """What the process was started in. `directory` is "" where it was deleted meanwhile."""
    from repo_provider.settings import Surroundings

    try:
        directory = os.getcwd()
    except OSError:
        directory = ""
    return Surroundings(os.environ.get("HOME"), directory, os.cpu_count() or 1)


if __name__ == "__main__":
    main()
