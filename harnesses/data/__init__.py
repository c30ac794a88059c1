"""Data: the types allowed in states, inputs and outputs; copies, read-only views, deltas and versions."""
