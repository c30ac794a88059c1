"""Many harnesses spend from one pool, crash at random and are killed with the whole program, and the pool is never overshot.

program   the harnesses: what each really spends it writes to a file of its own, past the store
proof     starts the program, kills it, and holds what was spent against the limit and against the store's books

`python -m tests.budget --harnesses 1000` shows it at full size.
"""
