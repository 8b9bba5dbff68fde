"""Benchmarks that print tables; nothing here is asserted."""
