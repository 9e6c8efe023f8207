"""What answers the questions of the trees: small functions over a case, a file for each field."""
