"""When waiting work will be read: what is told before it is submitted is what is told after."""

from __future__ import annotations

import pytest

from portal.domain import Limit
from portal.jobs.forecast import Forecast
from portal.usage import limit_edits
from portal.usage.limit_edits import LimitEdit
from tests.jobs.conftest import Bench


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0])
def test_new_work_is_told_the_time_it_is_told_once_it_waits(sqlite_bench: Bench, weight: float) -> None:
    context, tenant_id = sqlite_bench.context, sqlite_bench.alice.tenant_id
    for who, pages in ((sqlite_bench.charlie, 30), (sqlite_bench.dora, 5), (sqlite_bench.alice, 2)):
        sqlite_bench.submit(who, pages=pages)
    with context.database.transaction() as session:
        limit_edits.change(session, "test", tenant_id, LimitEdit(limits={Limit.WEIGHT: weight}))
    with context.database.reading() as session:
        told = Forecast(session, context).of_new(tenant_id, sqlite_bench.engine.capability.name, 10)
    assert sqlite_bench.submit(pages=10).eta_seconds == told
