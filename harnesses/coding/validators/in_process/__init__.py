"""Code that runs inside the judged pytest process: loaded as files, also by older versions of Python, and never imported."""
