"""A hostile venue: an exchange of its own process that speaks Binance's spot dialect, and goes wrong on purpose.

python -m tests.venue --port 0 --books FILE --seed 1 --lost 0.3 …     prints its address

market     what the market does: a pure function of the seed and the time
books      what it keeps: cash, positions, orders, trades. Decimals, no input or output
journal    the books on disk: killed at any moment, it comes back with every order that it has answered for
hostility  what goes wrong, and how often: drawn from the seed and the client order id, whatever order requests come in
dialect    the words: signatures, errors, the shapes of answers
server     the wire, the clock, and the doing of what hostility says
running    for tests: a venue in a process of its own, and its control endpoints
"""
