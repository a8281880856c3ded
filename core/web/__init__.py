"""Pieces of the HTTP and realtime API that both hosts mount."""
