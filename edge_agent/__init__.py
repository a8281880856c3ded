"""The box: mowers in, records kept, relay served, a local API for the household."""
