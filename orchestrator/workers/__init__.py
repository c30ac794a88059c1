"""One run in several processes on one machine: which worker runs which harness, and keeping the workers alive."""
