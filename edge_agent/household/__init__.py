"""The household on the box: its account, its mowers, and what a relay asks for them."""
