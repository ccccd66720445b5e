"""`python -m repo_provider` and the `repo-provider` command."""

from __future__ import annotations


def main() -> None:
    raise SystemExit("not yet")


if __name__ == "__main__":
    main()
