"""Readers that know the ready-made harnesses."""
