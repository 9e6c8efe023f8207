"""What is asked of the ledger: cost, causes, rates, budgets, goodput, what a run was worth."""
