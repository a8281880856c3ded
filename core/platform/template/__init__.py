"""The folder that `mowdeck integration new` makes: a small mower over HTTP that passes the check as it is."""
