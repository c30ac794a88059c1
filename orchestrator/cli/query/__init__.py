"""Verbs that ask questions: analyze and sql."""
