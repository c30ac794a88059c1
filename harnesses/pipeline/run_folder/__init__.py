"""The run folder: a view of the stored run as files, which are rendered, written and kept up to date."""
