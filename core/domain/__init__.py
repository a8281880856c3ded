"""Pure words and rules of robot mowing: no I/O, no event loop."""
