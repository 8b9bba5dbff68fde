"""Days and months in a tenant's zone: days of 23 and 25 hours, midnights that do not exist or come twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.usage.periods import period_at


@pytest.mark.parametrize(
    ("zone", "moment", "day", "hours"),
    [
        ("Europe/Berlin", datetime(2026, 3, 28, 23, 0, tzinfo=UTC), "2026-03-29", 23),
        ("Europe/Berlin", datetime(2026, 10, 24, 22, 0, tzinfo=UTC), "2026-10-25", 25),
        ("America/Havana", datetime(2026, 3, 8, 5, 0, tzinfo=UTC), "2026-03-08", 23),  # its midnight does not exist
        ("America/Havana", datetime(2026, 11, 1, 4, 0, tzinfo=UTC), "2026-11-01", 25),  # its midnight comes twice
        ("Asia/Kathmandu", datetime(2026, 5, 31, 18, 15, tzinfo=UTC), "2026-06-01", 24),
    ],
)
def test_a_day_lasts_as_long_as_the_clocks_of_its_zone_say(zone: str, moment: datetime, day: str, hours: int) -> None:
    period = period_at(moment, zone)
    assert period.day == day
    assert period.day_ends_at - moment == timedelta(hours=hours)
    assert period_at(moment - timedelta(seconds=1), zone).day < day


_zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/Havana", "Pacific/Kiritimati", "Africa/Cairo", "Asia/Beirut"]
)
_moments = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))


@given(_moments, _zones)
def test_periods_meet_without_a_gap_wherever_they_are(moment: datetime, zone: str) -> None:
    period = period_at(moment, zone)
    assert moment < period.day_ends_at <= period.month_ends_at
    last = period_at(period.day_ends_at - timedelta(microseconds=1), zone)
    following = period_at(period.day_ends_at, zone)
    assert (last.day, last.day_ends_at) == (period.day, period.day_ends_at)
    assert following.day > period.day
    assert period_at(period.month_ends_at, zone).month > period.month
    assert period_at(period.month_ends_at - timedelta(microseconds=1), zone).month == period.month
