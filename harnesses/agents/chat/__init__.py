"""Turns of model agents: the rounds of a conversation with a model and its tools, and what is kept of them."""
