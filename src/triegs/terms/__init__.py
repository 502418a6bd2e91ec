"""Terms, and the dictionary that gives each one an id."""
