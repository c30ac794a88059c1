"""A Model Context Protocol server over the API of the page, through which agents supervise runs."""
