"""States: converting stored data to its declared types, and migrating it."""
