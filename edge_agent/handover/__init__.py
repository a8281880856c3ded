"""Handing config entries over from one box to another."""
