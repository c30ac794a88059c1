"""The tests. A package, so that a folder of them that is called as a module of Python's does not take its place."""
