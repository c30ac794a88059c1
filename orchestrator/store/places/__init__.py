"""Where a store is: a file, or a server with a local copy that everything reads."""
