"""SQLAlchemy tables, nothing else; importing this package registers all of them on Base.metadata."""

from models.api_key import ApiKey
from models.audit import AuditEntry
from models.base import Base
from models.deletion import DeletionRecord
from models.document import DocumentRow
from models.field_template import FieldTemplate
from models.invite import Invite
from models.job import Job
from models.member import Member
from models.page import Page
from models.plan import LimitChange, Plan, QuotaRequest, TenantLimit
from models.portal_option import PortalOption
from models.search_text import SearchText
from models.session import SignInFailures, SignInSession
from models.tenant import Tenant
from models.usage import LedgerEntry, RefusalCount, Reservation, TenantUsage, UsageNotice

__all__ = [
    "ApiKey",
    "AuditEntry",
    "Base",
    "DeletionRecord",
    "DocumentRow",
    "FieldTemplate",
    "Invite",
    "Job",
    "LedgerEntry",
    "LimitChange",
    "Member",
    "Page",
    "Plan",
    "PortalOption",
    "QuotaRequest",
    "RefusalCount",
    "Reservation",
    "SearchText",
    "SignInFailures",
    "SignInSession",
    "Tenant",
    "TenantLimit",
    "TenantUsage",
    "UsageNotice",
]
