"""What operators are told and may do, through the command, the page and the API: plain values, and operations on a store."""
