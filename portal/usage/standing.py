"""How a tenant stands now: what the price before a run, the response headers and the Usage page are made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from models.base import now
from portal.domain import Standing
from portal.usage.bindings import nearest, pages_left, standings
from portal.usage.counters import Counters, counters_of
from portal.usage.limits import Terms, terms_of
from portal.usage.periods import Period, period_at


@dataclass(frozen=True)
class TenantStanding:
    """A tenant's terms, counters and standings against each counted limit at the period's moment."""

    terms: Terms
    period: Period
    counters: Counters

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Against each counted limit, the longest period first."""
        return standings(self.counters, self.terms.limits, self.period)

    @property
    def nearest(self) -> Standing | None:
        """The limit that is nearest to refusing; None when none can."""
        return nearest(self.standings)

    @property
    def pages_left(self) -> int | None:
        """How many pages may be asked for now, by the tightest limit on pages; None when none limits them."""
        return pages_left(self.terms.limits, self.counters)


def standing_of(session: Session, tenant_id: str, *, at: datetime | None = None) -> TenantStanding:
    """The tenant's standing at the aware moment `at` (now). Raises NotFound."""
    at = at or now()
    terms = terms_of(session, tenant_id, at=at)
    period = period_at(at, terms.time_zone)
    return TenantStanding(terms, period, counters_of(session, tenant_id, period))
