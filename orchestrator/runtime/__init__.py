"""The runtime: children, their attempts, supervision, and reporting of failures."""
