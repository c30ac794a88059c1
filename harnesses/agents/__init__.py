"""Ready-made agents."""
