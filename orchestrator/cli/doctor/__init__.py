"""The verb `doctor`: checks of the machine, the run file, the store and the work in it."""
