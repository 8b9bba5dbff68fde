"""The portal's command line and composition root: settings in, running parts out.

Heavy imports are late: the child processes of the sandbox and the engine import this module again.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from portal.admin_commands import admin
from portal.errors import PortalError, SettingsError
from portal.fleet_commands import fleet

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from portal.engine.base import Engine
    from portal.services import Services
    from portal.settings import Settings

cli = typer.Typer(help="The self-service OCR portal.", no_args_is_help=False, pretty_exceptions_enable=False)
cli.add_typer(admin, name="admin")
cli.add_typer(fleet, name="fleet")

_MAX_CONNECTIONS = 2000
_FLEET_SECONDS = 10.0
_WORK_THREADS = 240  # shared by all synchronous work; uploads that wait for their turn hold most of them

ROOT = Path(__file__).resolve().parent


def _refusing(command: Callable[..., None]) -> Callable[..., None]:
    """Shows a PortalError as its message and remedy, and ends with status 2."""

    @wraps(command)
    def wrapped(*args: object, **kwargs: object) -> None:
        try:
            command(*args, **kwargs)
        except PortalError as error:
            print(f"{error.message}\n{error.remedy}", file=sys.stderr)
            raise typer.Exit(2) from None

    return wrapped


@cli.callback(invoke_without_command=True)
def main(context: typer.Context) -> None:
    """Starts the portal when no command is named."""
    if context.invoked_subcommand is None:
        serve()


@cli.command()
@_refusing
def serve() -> None:
    """Migrates the database, then serves browser, API and embedded engine until it is stopped."""
    from portal import logs, settings

    loaded = settings.load()
    settings.forget_environment()
    logs.configure(loaded.server)
    _serve(loaded)


@cli.command()
@_refusing
def migrate() -> None:
    """Brings the database to the newest schema."""
    from portal import logs, schema, settings
    from portal.db import Database
    from portal.private_files import make_private_folder

    loaded = settings.load()
    logs.configure(loaded.server)
    make_private_folder(loaded.store.data_dir)
    schema.upgrade(Database(loaded.database_url))
    print("The database has the newest schema.")


@cli.command()
@_refusing
def check(
    connect: Annotated[bool, typer.Option(help="Also ask the database and the storage whether they answer.")] = True,
) -> None:
    """Prints the effective settings, secrets masked, and whether database and storage answer."""
    from portal import logs, schema, settings
    from portal.db import Database
    from portal.documents.storage import Storage
    from portal.private_files import make_private_folder

    loaded = settings.load()
    logs.configure(loaded.server)
    for name, value in loaded.rows():
        print(f"{name}={value}")
    _check_engines(loaded, is_connecting=connect)
    _check_fleet(loaded, is_connecting=connect)
    if not connect:
        return
    make_private_folder(loaded.store.data_dir)
    database = Database(loaded.database_url)
    database.ping()
    print(
        f"database: answers, schema {'newest' if schema.is_current(database) else 'older: run python app.py migrate'}"
    )
    Storage(loaded.store.data_dir).check()
    print("storage: can be written")


def _check_engines(settings: Settings, *, is_connecting: bool) -> None:
    """Prints each engine, for one on vLLM how it is served, and whether it answers."""
    from portal.engine.configuration import configured_engines, serve_command
    from portal.wording import counted

    async def look(engine: Engine) -> str:
        try:
            await engine.probe()
        except PortalError as error:
            return f"{error.message} {error.remedy}"
        finally:
            await engine.close()
        return "answers"

    for engine in configured_engines(settings.engine):
        own, command = engine.capability, serve_command(engine)
        print(f"engine {own.name}: {own.checkpoint}, profile {own.profile_version}, licence {own.licence}")
        if command is not None:
            print(f"  served by: {command}")
            print(f"  with room for its {counted(engine.slots, 'slot')}: --max-num-seqs, of all instances together")
        if is_connecting and own.is_remote:
            print(f"  {asyncio.run(look(engine))}")


def _check_fleet(settings: Settings, *, is_connecting: bool) -> None:
    """Prints where the fleet's control is, and what it answers."""
    from portal.fleet.watch import configured_fleet

    fleet = configured_fleet(settings.fleet)
    if fleet is None:
        return
    print(f"fleet at {fleet.address}")
    if is_connecting:
        sight = fleet.sight(wait_seconds=_FLEET_SECONDS)
        ready, total = sight.workers or (0, 0)
        trouble = sight.trouble
        said = f"{trouble.message} {trouble.remedy}" if trouble else f"answers, {ready} of {total} instances are ready"
        print(f"  {said}")


def _serve(settings: Settings) -> None:
    import uvicorn

    from portal.http.connections import BoundedHttpProtocol

    server = settings.server
    _refuse_taken_port(server.host, server.port)
    services = build_services(settings)
    uvicorn.run(
        build_app(services),
        host=server.host,
        port=server.port,
        http=BoundedHttpProtocol,
        limit_concurrency=_MAX_CONNECTIONS,
        proxy_headers=bool(server.trusted_proxies),
        forwarded_allow_ips=list(server.trusted_proxies),
        server_header=False,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=10,
    )


def _refuse_taken_port(host: str, port: int) -> None:
    """Asked early: the server itself would find out after everything else has started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SettingsError(
                f"The portal cannot listen on {host}, port {port}: {error.strerror}.",
                remedy="Set PORTAL_PORT to a free port (and PORTAL_HOST to an address of this machine).",
            ) from error


def build_services(settings: Settings) -> Services:
    """Opens database, storage, sandbox and engines; migrates; makes the admin at the first start.

    Raises SettingsError or Unavailable.
    """
    from portal import schema
    from portal.accounts import tenants
    from portal.accounts.peppers import Peppers
    from portal.db import Database
    from portal.documents.sandbox import Sandbox
    from portal.documents.storage import Storage
    from portal.engine.configuration import configured_engines
    from portal.jobs.context import Engines, JobContext
    from portal.jobs.notices import Notices
    from portal.private_files import make_private_folder
    from portal.services import Services
    from portal.usage import plans

    make_private_folder(settings.store.data_dir)
    database = Database(settings.database_url)
    schema.upgrade(database)
    peppers = Peppers.load(settings)
    storage = Storage(settings.store.data_dir)
    storage.check()
    plans.ensure_default(database)
    password = tenants.ensure_admin(database, settings)
    if password is not None:
        _announce_admin(settings.accounts.admin_email, password)
    engines = Engines(configured_engines(settings.engine))
    jobs = JobContext(settings, database, storage, Sandbox(settings.intake), engines, Notices())
    return Services(settings, database, peppers, jobs)


def build_app(services: Services) -> ASGIApp:
    """The HTTP application: REST, server-rendered pages, files, and Gradio behind its guard at /."""
    upload_dir = (services.settings.store.data_dir / "gradio").resolve()
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before the import: it looks up outside hosts otherwise
    os.environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = str(10**9)  # it would sum up its events with pandas after each
    os.environ["GRADIO_TEMP_DIR"] = str(upload_dir)
    import gradio as gr
    from fastapi import FastAPI

    from portal import api, ui, web
    from portal.accounts import sessions
    from portal.web import downloads, pages
    from portal.web.guard import GuardRules, gradio_username, guard_mounted
    from portal.web.headers import SecurityHeaders
    from portal.web.static_files import VersionedFiles

    public_url = services.settings.server.public_url
    http = FastAPI(title="OCR portal", lifespan=_lifespan(services), docs_url=None, redoc_url=None, openapi_url=None)
    static = VersionedFiles(ROOT / "static")
    http.mount("/static", static)
    http.include_router(api.router(services))
    http.include_router(web.router(services))
    http.include_router(downloads.router(services))
    pages.install(http)
    api.install(http)
    with warnings.catch_warnings():
        # It warns that several pages rule server-side rendering out, though that was not asked for.
        warnings.filterwarnings("ignore", message="SSR mode", category=UserWarning)
        pages_of_gradio = ui.build(services)
        gr.mount_gradio_app(
            http,
            pages_of_gradio,
            path="/",
            auth_dependency=gradio_username,
            favicon_path=ROOT / "static" / "icon.svg",
            max_file_size=services.settings.intake.max_file_bytes,
            **ui.mount_options(static.version),
        )
    rules = GuardRules(
        pages=("history", "usage", "keys", "admin"),
        admin_pages=("admin",),
        upload_dir=upload_dir,
        public_origin=public_url,
        page_head=ui.early_head(static.version),
        functions=frozenset(pages_of_gradio.fns),
        titles=ui.titles(),
    )
    guard_mounted(http, path="/", resolve=partial(sessions.resolve, services.database), rules=rules)
    # Around the finished application, not by add_middleware: Starlette answers its own 500s outside of that.
    return SecurityHeaders(http, is_https=(public_url or "").startswith("https://"))


def _lifespan(services: Services) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    import anyio.to_thread

    from portal.jobs.dispatch import Dispatcher

    @asynccontextmanager
    async def lifespan(_http: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _WORK_THREADS
        dispatching = asyncio.create_task(Dispatcher(services.jobs).run())
        dispatching.add_done_callback(partial(_report_death, services))
        try:
            yield
        finally:
            dispatching.cancel()
            await asyncio.gather(dispatching, return_exceptions=True)
            await asyncio.to_thread(services.door.close)
            for engine in services.jobs.engines.all:
                await engine.close()
            services.jobs.sandbox.close()
            services.database.dispose()

    return lifespan


def _report_death(services: Services, dispatching: asyncio.Task[None]) -> None:
    """A dispatcher that ends before the portal does is a fault that /readyz must show."""
    if dispatching.cancelled():
        return
    import structlog

    structlog.get_logger().critical("the dispatcher ended; restart the portal", exc_info=dispatching.exception())
    for engine in services.jobs.engines.all:
        services.jobs.engines.mark(engine, "the dispatcher ended; restart the portal.")


def _announce_admin(email: str, password: str) -> None:
    # On standard output and not in the log: logs are kept.
    print(
        f"\n  The admin was created. Sign in once with\n\n      {email}\n      {password}\n\n"
        "  and change the password on the account page. It is not shown again;\n"
        "  a new one: python app.py admin reset-password --email …\n",
        flush=True,
    )


if __name__ == "__main__":
    os.umask(0o077)  # what the portal writes is its own user's: scans, texts, hashes
    cli()
