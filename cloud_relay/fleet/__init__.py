"""The fleet: sites, groups and mowers of every account."""
