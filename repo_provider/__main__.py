"""`python -m repo_provider` and the `repo-provider` command: which edge was asked for.

A host waits for the acknowledgement of `serve`, so that one is recognised here, before any command-line framework,
git library or parser is imported; everything else is `cli`'s. Only this module and `cli` read the environment.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from repo_provider.session import Provider
    from repo_provider.settings import Settings, Surroundings


def main() -> None:
    """Run the command that was typed; the process ends with its exit code."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"] and not {"-h", "--help"} & set(arguments):
        _serve(arguments[1:])
    try:
        from repo_provider.cli import run

        code = run(arguments, surroundings())
    except KeyboardInterrupt:  # before the command line was there to say so
        code = 130
    sys.exit(code)


def _serve(arguments: list[str]) -> NoReturn:
    from repo_provider import stdio

    stdin, stdout = stdio.claim()  # before anything else is imported: imports may warn or print

    from repo_provider.errors import ProviderError
    from repo_provider.session import Service
    from repo_provider.settings import declared, read, resolve

    def log(text: str) -> None:
        stdio.log(f"repo-provider: {text}")

    try:
        settings = resolve(read(arguments), surroundings())
    except ProviderError as error:
        log(error.message)
        stdio.leave(2)
    for note in settings.notes:
        log(note)
    service = Service(*declared(settings), lambda: _load(settings, log), log=stdio.log)
    if settings.http is None:
        stdio.leave(stdio.serve(service, stdin, stdout, deadline=settings.deadline or 0))
    try:
        from repo_provider import httpd

        def announce(url: str) -> None:
            os.write(stdout, f"{url}\n".encode())

        stdio.leave(httpd.serve(service, settings.http, announce, deadline=settings.deadline))
    except ProviderError as error:
        log(error.message)
        stdio.leave(2)
    except KeyboardInterrupt:  # before it listened
        stdio.leave(130)


def _load(settings: Settings, log: Callable[[str], None]) -> Provider:
    from repo_provider.provider import Provider

    return Provider(settings, log=log)


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
