"""One fleet of harnesses on several machines: each node takes its share, and those of a node that is gone."""
