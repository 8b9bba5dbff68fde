"""OUT: what was read, as JSON, as safe HTML and as files to keep."""
