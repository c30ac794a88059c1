"""The verbs of fleets: a node on this machine, and who the nodes are."""
