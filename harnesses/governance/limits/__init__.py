"""Guardrails: limits on steps, agents, loops and accounts, held by code."""
