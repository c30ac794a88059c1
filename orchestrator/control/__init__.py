"""What a running program can be told and asked from outside: HTTP on a socket that only its user can open."""
