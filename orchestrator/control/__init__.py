"""The control API of a running program: HTTP on a socket that only its user can open."""
