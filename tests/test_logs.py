from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import logging
import structlog
from portal import logs, settings

logs.configure(settings.load().server)

def sign_in(password):
    raise RuntimeError("the reason")

try:
    sign_in("-".join(["seven", "green", "kettles"]))
except RuntimeError as error:
    structlog.get_logger().error("ours", exc_info=error)
    logging.getLogger("uvicorn.error").error("theirs", exc_info=error)
"""


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_tells_the_reason_and_no_local_variable_when_a_call_fails(log_format: str) -> None:
    environ = os.environ | {"PORTAL_LOG_FORMAT": log_format}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environ)
    assert done.stderr.count("RuntimeError: the reason") == 2
    assert "seven-green-kettles" not in done.stderr
