"""HOW MUCH: what each tenant used. Later floors of it (plans, quotas, ledger) build on these entries."""
