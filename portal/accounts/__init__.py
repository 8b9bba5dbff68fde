"""Who calls: tenants, members, passwords, sessions and API keys, each proven caller as a Principal.

Hashing a password never happens inside a transaction: SQLite has one writer, and argon2 takes its time.
"""
