"""What time it is on a machine without a clock battery."""
