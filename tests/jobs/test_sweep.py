"""What a death between storing and committing leaves is removed later, and nothing else."""

from __future__ import annotations

import asyncio
import os
import time

from portal.jobs import claims, handbacks
from portal.jobs.sweep import sweep_blobs, sweep_scratch
from tests.jobs.conftest import Bench, dispatching


def test_old_blobs_without_a_row_are_removed(sqlite_bench: Bench) -> None:
    storage, tenant_id = sqlite_bench.context.storage, sqlite_bench.alice.tenant_id
    kept = sqlite_bench.submit().documents[0].id
    upload = sqlite_bench.upload().path
    for document_id in ("doc_orphan", "doc_young"):
        storage.store(tenant_id, document_id, upload)
    part = storage.source_path(tenant_id, kept).with_name(".source.0.part")
    part.touch()
    live = part.with_name(".source.1.part")
    live.touch()
    two_hours_ago = time.time() - 7200
    for path in (*(storage.source_path(tenant_id, document).parent for document in ("doc_orphan", kept)), part):
        os.utime(path, (two_hours_ago, two_hours_ago))
    assert sweep_blobs(sqlite_bench.context) == 1
    assert not storage.source_path(tenant_id, "doc_orphan").exists()
    assert storage.source_path(tenant_id, "doc_young").exists()
    assert storage.source_path(tenant_id, kept).exists()
    assert not part.exists()
    assert live.exists()


def test_page_image_of_a_dead_process_is_swept_and_that_of_a_held_claim_stays(bench: Bench) -> None:
    context, tenant_id = bench.context, bench.alice.tenant_id
    job = bench.submit(pages=2)
    document_id = job.documents[0].id
    with context.database.transaction() as session:
        ours, dead = (claims.claim(session, worker, tenant_id, job.id) for worker in ("ours", "dead"))
    assert ours is not None
    assert dead is not None
    left, in_use = (
        context.storage.scratch_path(tenant_id, document_id, one.number, mark=one.mark) for one in (dead, ours)
    )
    view = context.storage.page_view_path(tenant_id, document_id, 1)
    for path in (left, in_use, view):
        path.touch()
    assert sweep_scratch(context) == 0
    with context.database.transaction() as session:
        handbacks.release_all(session, "dead")
    assert sweep_scratch(context) == 1
    assert (left.exists(), in_use.exists(), view.exists()) == (False, True, True)


def test_start_sweeps_the_page_images_of_the_process_that_died(bench: Bench) -> None:
    job = bench.submit()
    with bench.context.database.transaction() as session:
        dead = claims.claim(session, "dead", bench.alice.tenant_id, job.id)
    assert dead is not None
    left = bench.context.storage.scratch_path(dead.tenant_id, dead.document_id, dead.number, mark=dead.mark)
    left.touch()

    async def start() -> None:
        async with dispatching(bench.context):
            while left.exists():
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(start(), 20))
    assert left.parent.is_dir()
