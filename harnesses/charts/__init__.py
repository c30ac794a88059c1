"""Shared look of all charts: colours and fonts, the time axis, and thinning of lines to the visible points."""
