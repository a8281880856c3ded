"""One folder per brand or protocol. Each imports core only, never another."""
