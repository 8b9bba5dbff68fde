"""SQLAlchemy tables, nothing else; importing this package registers all of them on Base.metadata."""

from models.api_key import ApiKey
from models.audit import AuditEntry
from models.base import Base
from models.document import DocumentRow
from models.field_template import FieldTemplate
from models.job import Job
from models.member import Member
from models.page import Page
from models.search_text import SearchText
from models.session import SignInFailures, SignInSession
from models.tenant import Tenant
from models.usage import UsageEntry

__all__ = [
    "ApiKey",
    "AuditEntry",
    "Base",
    "DocumentRow",
    "FieldTemplate",
    "Job",
    "Member",
    "Page",
    "SearchText",
    "SignInFailures",
    "SignInSession",
    "Tenant",
    "UsageEntry",
]
