"""Fields: what is asked (specs, templates), how it is found (matcher, answers), and whether it holds (rules)."""
