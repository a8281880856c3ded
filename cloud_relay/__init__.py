"""The hosted relay: many boxes, many accounts, one API."""
