"""What the portal sees of the machines that read for it, and what its admin orders them: looks, commands, audit."""
