"""`python -m bench [accuracy|throughput|start|history|viewer|fields]`: all tables, or one."""

from __future__ import annotations

import importlib
import sys

TABLES = ("accuracy", "throughput", "start", "history", "viewer", "fields")


def main(arguments: list[str]) -> int:
    """Runs the named benchmark with its own arguments, or all with their defaults."""
    if not arguments:
        return max(_run(name, []) for name in TABLES)
    if arguments[0] not in TABLES:
        print(f"There is no benchmark '{arguments[0]}'. Choose one of: {', '.join(TABLES)}.", file=sys.stderr)
        return 2
    return _run(arguments[0], arguments[1:])


def _run(name: str, arguments: list[str]) -> int:
    print(f"\n== {name} ==\n", flush=True)
    status: int = importlib.import_module(f"bench.{name}").main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
