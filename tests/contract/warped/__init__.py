"""The contract in virtual time."""
