"""Data: what states, inputs and outputs may consist of; copies, views, differences and versions of it."""
