"""The meadow's state and what keeps it consistent: layout, tables, layers, energy ledger."""
