"""Guardrails: limits on steps, agents, loops and accounts, enforced by code."""
