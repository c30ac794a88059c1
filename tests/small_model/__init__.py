"""A real small model on this machine, behind Chat Completions: SmolLM2 with 135 million parameters, 98 MB.

python -m tests.small_model        installs it into the user's cache where it is missing, and asks it

It is good for testing what is around a model, not for its answers. The tests of the suite that ask it are skipped unless it is
installed.

endpoint.mjs     the server: npm `node-llama-cpp`
small_model      installing and running it
"""
