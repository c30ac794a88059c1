"""Validates a submission in a private copy of the workspace: inspection, commands, a validator, evidence, verdict."""
