"""A store on a PostgreSQL server: programs on several machines, each owning its harnesses by a lease."""
