"""The verb `run`: run files, supervisor scripts, the live display and the final report."""
