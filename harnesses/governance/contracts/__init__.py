"""Contracts: the reports of builders and validators, parsed and checked."""
