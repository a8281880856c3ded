"""Alerts of the box's mowers."""
