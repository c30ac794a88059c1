"""The run folder: a view of the stored run as files, rendered, written and kept up to date."""
