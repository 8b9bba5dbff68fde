"""Logging: one structlog pipeline for our lines and those of libraries, as text or JSON, on standard error.

No secret ever reaches it: keys, tokens and passwords are never passed to a logger.
"""

from __future__ import annotations

import logging
import sys

import structlog

from portal.settings import ServerSettings

_QUIET = ("httpx", "httpcore", "multipart", "PIL", "alembic", "asyncio", "python_multipart", "uvicorn.access")


def configure(settings: ServerSettings) -> None:
    """Sets level and format of all logging in this process."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(settings)],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _renderers(settings: ServerSettings) -> list[structlog.types.Processor]:
    if settings.log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # The default formatter prints the local variables of each frame, and so passwords and keys.
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
