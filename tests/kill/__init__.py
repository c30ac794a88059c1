"""A program with eight harnesses is killed again and again, and not a step may be missing, repeated or changed.

workload    the eight harnesses; the state of each after step n is a function of n
child       the program that is killed
lives       starts it, kills it, and holds what the store says against what was acknowledged

`python -m tests.kill --kills 2000 --seed 7` goes on for as long as you like.
"""
