"""Files: atomic writes, safe opening, and hiding private files from sandboxes."""
