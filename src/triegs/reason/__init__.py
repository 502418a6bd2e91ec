"""Rules: text to rule model to tables, and the kernels that keep a closure up to date."""
