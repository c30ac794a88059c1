"""Several harnesses on one account: a shared book with a sub-book for each."""
