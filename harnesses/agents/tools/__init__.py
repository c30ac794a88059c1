"""Tools that an agent can call, and the policy that allows them."""
