"""Reading published versions."""
