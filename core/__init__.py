"""What the box and the relay share. Imports neither of them, nor any integration."""
