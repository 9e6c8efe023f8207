"""Money over HTTP: the ledger and its keeper, cost, prices, imports and exports."""
