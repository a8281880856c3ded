"""Giving config entries from one box to another: keys, sealing, and the bundle that carries them."""
