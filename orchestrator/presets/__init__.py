"""Readers that know the state classes of the ready-made harnesses."""
