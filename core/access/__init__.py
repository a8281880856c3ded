"""Who may do what: relation tuples and the authorizer that reads them."""
