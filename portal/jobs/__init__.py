"""WHEN: submission (story 1), execution (story 2), and the fair dispatch between them."""
