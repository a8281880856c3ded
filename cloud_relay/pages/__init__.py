"""Pages of the relay for people: the first one, and the one that links a box. Plain files, no build step."""
