"""What an accepted submission is answered with beside its body: how near the tenant is to a limit."""

from __future__ import annotations

from portal.domain import Principal
from portal.errors import PortalError
from portal.http.problems import standing_headers
from portal.services import Services
from portal.usage.standing import standing_of


def rate_limit_headers_of(services: Services, principal: Principal) -> dict[str, str]:
    """X-RateLimit-* of the limit nearest to its end. Empty when they cannot be read: the work is accepted already."""
    try:
        with services.database.reading() as session:
            return standing_headers(standing_of(session, principal.tenant_id))
    except PortalError:
        return {}
