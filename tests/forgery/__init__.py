"""Work that counts, forged in one place: none of it may pass.

python -m tests.forgery --count 10000 --seed 1     forges at random, judges, and says what was let pass

work      a piece of work with all that proves it, and how it is judged
forging   what can be forged about it: each a function that changes one thing
"""
