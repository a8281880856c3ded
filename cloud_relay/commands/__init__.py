"""Commands: issued, signed, published, and what became of them."""
