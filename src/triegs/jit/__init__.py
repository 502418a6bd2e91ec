"""How kernels are compiled and cached, and the words that they work on."""
