"""The line to the relay: live lane, journal, results, commands."""
