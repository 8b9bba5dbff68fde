"""Fields of generated receipts and invoices, and of the shared scans: precision and recall by language."""

from bench.fields.table import main

__all__ = ["main"]
