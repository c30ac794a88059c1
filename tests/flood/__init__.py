"""Messages in great numbers, from this program and others, while harnesses crash and the program is killed: each exactly once.

python -m tests.flood --count 1000000 --senders 200 --kills 20
"""
