"""Contracts: what builders and validators hand in, read and checked."""
