"""The contract that every integration holds, as checks that run against an emulated mower, and the check of a folder."""
