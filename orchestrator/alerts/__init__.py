"""Tells people what needs them: rules, what is so now, a book of what was told, and delivery. See docs/how-to/alerts.md."""
