"""What crosses packages for a tenant: deletion, the admin's list of tenants, and the dry run of other limits."""
