"""Tests against a real vLLM on CPU: `make test-vllm`. They are no part of `make test`."""
