"""The loop of `FeatureHarness`, and its collaborators: each does one part of making a step."""
