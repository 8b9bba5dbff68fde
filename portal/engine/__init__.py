"""HOW a page is read: the Engine protocol, the embedded CPU engine and what turns boxes into readable text."""
