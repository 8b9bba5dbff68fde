"""The OCR portal: tenants, API keys, jobs and pages in front of one OCR engine."""
