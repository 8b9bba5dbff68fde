"""What a death between storing and committing leaves is removed later, and nothing else."""

from __future__ import annotations

import os
import time

from portal.jobs.sweep import sweep_blobs
from tests.jobs.conftest import Bench


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
