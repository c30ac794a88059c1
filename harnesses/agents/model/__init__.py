"""Model providers, what protects their calls, and what they cost."""
