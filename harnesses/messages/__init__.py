"""Messages: requests and replies, and the mailbox of a harness that runs without an orchestrator."""
