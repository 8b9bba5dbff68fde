"""What the history's search looks through."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, new_id


class SearchText(Base):
    """One row for the file names of a job (`page_id` is NULL), one for each page with text.

    `folded` is the text as portal/jobs/search.py folds it. It stands apart from the page's result, so that a search
    need not read past that on its way.
    """

    __tablename__ = "search_texts"
    __table_args__ = (Index("ix_search_texts_tenant_id_job_id", "tenant_id", "job_id"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("sea"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    page_id: Mapped[str | None] = mapped_column(ForeignKey("pages.id"), unique=True)
    folded: Mapped[str] = mapped_column(Text)
