"""`python -m tests.bench NAME [ARGUMENTS]` runs the benchmark of that name; without a name it lists them."""

from __future__ import annotations

import pkgutil
import runpy
import sys

from tests import bench


def main(arguments: list[str]) -> int:
    names = sorted(found.name for found in pkgutil.iter_modules(bench.__path__) if not found.name.startswith("_"))
    if not arguments or arguments[0] not in names:
        print("usage: python -m tests.bench NAME [ARGUMENTS]\nbenchmarks: " + ", ".join(names), file=sys.stderr)
        return 2
    sys.argv = arguments
    runpy.run_module(f"tests.bench.{arguments[0]}", run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
