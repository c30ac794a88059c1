"""A list of features, worked until every one is proven."""
