"""Files: writing them whole, opening them safely, and keeping them private."""
