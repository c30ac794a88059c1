"""Messages: requests and replies, and the in-memory mailbox of a harness that runs alone."""
