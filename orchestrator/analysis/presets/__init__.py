"""Questions about the ready-made trading and coding harnesses."""
