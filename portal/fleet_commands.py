"""`app.py fleet …`: the GPU box from a shell. `up` is the supervisor itself, the rest asks or steers it.

What was asked for goes to stdout, so that it can be piped. A refusal is printed with its remedy, exit status 2.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from portal.errors import PortalError, SettingsError
from portal.serving import card, configuration
from portal.serving.checkpoint_headers import read_shape
from portal.serving.configuration import FleetConfiguration
from portal.serving.control_client import FleetControl
from portal.serving.memory_plan import MemoryPlan, make_plan, table

fleet = typer.Typer(
    name="fleet",
    help="One weight copy, several vLLM instances, one router: plan, start, watch and steer them on the GPU box.",
    no_args_is_help=True,
)

ConfigOption = Annotated[
    Path, typer.Option("--config", envvar="FLEET_CONFIG", help="The fleet's TOML file; see deploy/fleet/*.toml")
]
NumberArgument = Annotated[int, typer.Argument(help="The instance's number, from 0")]


@fleet.command()
def plan(
    config: ConfigOption,
    memory: Annotated[
        str | None, typer.Option(help='Plan for a card of this size ("24 GiB") instead of the one that is here.')
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs")] = False,
) -> None:
    """Show how many instances fit beside one copy of the weights, and why."""
    with _refusing():
        made = _plan(configuration.load(config), memory)
        typer.echo(json.dumps(_plan_json(made), indent=1) if as_json else table(made))
        made.refuse_unless_it_fits()


@fleet.command()
def up(config: ConfigOption) -> None:
    """Start everything and look after it until SIGTERM or `fleet down`."""
    from portal.serving.supervisor import supervise

    with _refusing():
        logging.basicConfig(level=logging.INFO, format="%(asctime)s fleet %(levelname)s %(message)s", stream=sys.stderr)
        logging.getLogger("httpx").setLevel(logging.WARNING)
        loaded = configuration.load(config)
        asyncio.run(supervise(loaded, _plan(loaded, None)))


@fleet.command()
def status(config: ConfigOption, as_json: Annotated[bool, typer.Option("--json", help="For programs")] = False) -> None:
    """Show store, router and instances."""
    with _refusing():
        found = _control(config).status()
        typer.echo(json.dumps(found, indent=1) if as_json else _status_table(found))


@fleet.command()
def drain(config: ConfigOption, number: NumberArgument) -> None:
    """Take one instance out; it finishes what it reads and stops. `fleet restart N` brings it back."""
    with _refusing():
        _control(config).drain(number)
        typer.echo(f"Instance {number} takes no new page and stops when it has finished.")


@fleet.command()
def restart(
    config: ConfigOption,
    number: Annotated[int | None, typer.Argument(help="One instance; without it all, one by one")] = None,
) -> None:
    """Replace instances one by one, each ready again before the next goes."""
    with _refusing():
        _control(config).restart(number)
        typer.echo("Restarting one by one; `fleet status` shows how it goes.")


@fleet.command()
def down(config: ConfigOption) -> None:
    """Stop router, instances and store."""
    with _refusing():
        _control(config).down()
        typer.echo("The fleet goes down.")


@fleet.command()
def verify(config: ConfigOption) -> None:
    """Check every tensor of the running store against what the loader had. Status 1: damaged; 2: not checked."""
    with _refusing():
        found = _control(config).verify()
        typer.echo(found.said)
    raise typer.Exit(int(found.is_damaged))


@fleet.command("gpu-check")
def gpu_check(
    config: ConfigOption,
    megabytes: Annotated[int, typer.Option(help="Size of the random weights")] = 2000,
    seconds: Annotated[float, typer.Option(help="How long each measurement of throughput lasts")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the result there")] = None,
) -> None:
    """Prove on this card what sharing stands on; at most 8 minutes. Stop the fleet first. Status 1: not as promised."""
    from portal.serving.commands import gpu_check_command, run_in_front

    with _refusing():
        loaded = configuration.load(config)
        code = run_in_front(loaded, gpu_check_command(loaded, megabytes, seconds, json_file))
    raise typer.Exit(code)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except PortalError as error:
        typer.echo(f"{error.message}\n{error.remedy}", err=True)
        raise typer.Exit(2) from None


def _control(config: Path) -> FleetControl:
    return FleetControl(socket_path=configuration.load(config).control_socket)


def _plan(loaded: FleetConfiguration, memory: str | None) -> MemoryPlan:
    stated = loaded.card.memory
    if memory is not None:
        try:
            stated = int(str(configuration.size_bytes(memory)))
        except ValueError as error:
            raise SettingsError(f"--memory: {error}.", remedy='Write it like "24 GiB".') from error
    if stated is not None:
        device = card.Memory("a card as stated", stated, 0)
    else:
        device = card.host_memory() if loaded.is_cpu else card.device_memory(loaded.device)
    return make_plan(loaded, read_shape(loaded.checkpoint), device)


def _plan_json(made: MemoryPlan) -> dict[str, Any]:
    return {
        "device": made.device.name,
        "device_bytes": made.device.total_bytes,
        "limit_bytes": made.limit_bytes,
        "wanted_instances": made.instances,
        "fitting_instances": made.fitting,
        "kv_tokens": made.kv_tokens,
        "rows": [
            {"what": row.what, "place": row.place, "count": row.count, "each_bytes": row.each_bytes, "basis": row.basis}
            for row in made.rows
        ],
    }


def _status_table(found: dict[str, Any]) -> str:
    store, router = found["store"], found["router"]
    size = f"{store['total_bytes'] / 1e6:.0f} MB" if store["total_bytes"] else "nothing"
    stopped_at = found["fleet"]["rolling_stopped_at"]
    lines = [
        f"fleet    {found['fleet']['summary']}",
        *([f"         the last rolling restart stopped at {stopped_at}; the others were let be"] if stopped_at else ()),
        f"store    {store['state']}: {size} by {found['fleet']['transport']}, {len(store['leases'] or ())} readers"
        f"{_trouble(store)}",
        f"router   {router['state']}: {router['url']}, {len(router['workers'])} instances{_trouble(router)}",
        "   state          pid starts failed running waiting   private  last error",
    ]
    for one in found["instances"]:
        private = f"{one['private_bytes'] / 1e6:.0f} MB" if one["private_bytes"] is not None else "–"
        shown = [str("–" if one[name] is None else one[name]) for name in ("pid", "running", "waiting")]
        lines.append(
            f"{one['number']:<2} {one['state']:<9} {shown[0]:>8} {one['starts']:>6} {one['failures']:>6}"
            f" {shown[1]:>7} {shown[2]:>7} {private:>9}  {one['last_error'][:120]}"
        )
    return "\n".join(lines)


def _trouble(part: dict[str, Any]) -> str:
    is_well = part["state"] == "ready" or not part["last_error"]
    return "" if is_well else f"; last error: {part['last_error'][:200]}"
