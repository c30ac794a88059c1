"""`CodingHarness`, and the workplace in which its tries at features happen: a git repository."""
