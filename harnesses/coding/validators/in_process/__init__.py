"""What runs inside the judged pytest process: loaded as files, by older versions of Python too, and never imported."""
