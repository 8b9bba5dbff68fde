"""IN: untrusted bytes become validated documents, stored by tenant, and page images for the engines."""
