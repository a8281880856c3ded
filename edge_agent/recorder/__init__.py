"""Records what mowers report: grouped commits, memory while the disk is full or the clock is not yet right."""
