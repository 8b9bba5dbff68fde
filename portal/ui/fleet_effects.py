"""What an order to the fleet will do, in words, as they stand when it is to be confirmed. Pure."""

from __future__ import annotations

from portal.serving.fleet_status import FleetStatus, InstanceStatus
from portal.ui import words


def drain(instance: InstanceStatus, status: FleetStatus) -> str | None:
    """None where there is nothing to drain: it is out already, or the only one that reads."""
    if instance.state in ("stopped", "draining", "failed") or status.fleet.is_rolling:
        return None
    if not instance.is_ready:
        return (
            "It reads nothing now. It is stopped and stays out until it is restarted; "
            f"{_others(instance, status)} meanwhile."
        )
    if status.ready_count == 1:
        return None
    return (
        f"It takes no new page, {_finishing(instance)} and stops; {_others(instance, status)} meanwhile. "
        "It stays out until it is restarted."
    )


def restart(instance: InstanceStatus, status: FleetStatus) -> str:
    """For one instance."""
    if not instance.is_ready:
        return f"It is started anew; its earlier failures are forgotten. {_others(instance, status).capitalize()}."
    return (
        f"It takes no new page, {_finishing(instance)} and is started anew, which takes as long as a start does. "
        f"Meanwhile {_others(instance, status)}."
    )


def restart_all(status: FleetStatus) -> str:
    """For all of them, one by one."""
    count = len(status.instances)
    if status.ready_count < 2:
        return (
            f"{words.counted(count, 'instance').capitalize()} {'is' if count == 1 else 'are'} replaced one by one. "
            "Fewer than two read now: at times nobody will, and accepted pages wait."
        )
    return (
        f"All {count} instances are replaced one by one: each finishes what it reads, and is ready again before the "
        "next goes. No page is lost; reading is slower until the last is back."
    )


def _finishing(instance: InstanceStatus) -> str:
    if instance.running is None:
        return "finishes what it is reading"
    under_way = instance.running + (instance.waiting or 0)
    return f"finishes the {words.counted(under_way, 'page')} it has" if under_way else "has nothing to finish"


def _others(instance: InstanceStatus, status: FleetStatus) -> str:
    others = status.ready_count - instance.is_ready
    if others == 0:
        return "nobody reads, and accepted pages wait"
    return f"{words.counted(others, 'other instance')} {'reads' if others == 1 else 'read'} on"
