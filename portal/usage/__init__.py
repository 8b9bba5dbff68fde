"""HOW MUCH: plans and limits, admission with reservations, the ledger, receipts and reports."""
