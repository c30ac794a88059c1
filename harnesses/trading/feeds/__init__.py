"""Feeds: replayed files and polled servers."""
