"""The loop of `FeatureHarness`, and the collaborators that make the parts of a step."""
