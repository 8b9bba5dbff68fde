"""What the edges (api, web, ui) are given: built once in app.py, never global."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from portal.accounts.peppers import Peppers
from portal.db import Database
from portal.door.passage import Door
from portal.fleet.machines import Machines
from portal.jobs.context import JobContext
from portal.settings import Settings


@dataclass(frozen=True)
class Services:
    """The running portal's parts; safe to share between threads."""

    settings: Settings
    database: Database
    peppers: Peppers
    jobs: JobContext

    @cached_property
    def door(self) -> Door:
        """The OpenAI door; used on the event loop."""
        return Door(self.jobs)

    @cached_property
    def machines(self) -> Machines:
        """What is seen of fleet, router and engines."""
        return Machines(self.settings.fleet, self.jobs.engines)
