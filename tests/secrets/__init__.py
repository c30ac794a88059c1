"""What must go and what must stay: secrets in the surroundings they are found in, and what only looks like them."""
