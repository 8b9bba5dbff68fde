"""`python -m bench [NAME]`: all tables, or one of those below."""

from __future__ import annotations

import importlib
import sys

TABLES = (
    *("accuracy", "throughput", "start", "history", "usage", "viewer", "fields"),
    *("admission", "kills", "gateway", "fairness"),
)
WITH_VLLM = ("sharing",)  # `make bench-sharing`: not among all


def main(arguments: list[str]) -> int:
    """Runs the named benchmark with its own arguments, or all with their defaults."""
    if not arguments:
        return max(_run(name, []) for name in TABLES)
    if arguments[0] not in (*TABLES, *WITH_VLLM):
        known = ", ".join((*TABLES, *WITH_VLLM))
        print(f"There is no benchmark '{arguments[0]}'. Choose one of: {known}.", file=sys.stderr)
        return 2
    return _run(arguments[0], arguments[1:])


def _run(name: str, arguments: list[str]) -> int:
    print(f"\n== {name} ==\n", flush=True)
    status: int = importlib.import_module(f"bench.{name}").main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
