"""The link to a relay: asking for it, keeping it, ending it."""
