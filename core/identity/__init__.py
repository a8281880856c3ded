"""Who somebody is: users, passwords, sessions, tokens, keys."""
