"""The fixtures of tests.engine.vllm_bench."""

from tests.engine.vllm_bench import _server, page, read, vllm

__all__ = ["_server", "page", "read", "vllm"]
