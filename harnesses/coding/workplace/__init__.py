"""`CodingHarness`, and a git repository as the place where attempts at features happen."""
