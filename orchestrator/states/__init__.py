"""States: giving stored data its declared types, and migrating it."""
