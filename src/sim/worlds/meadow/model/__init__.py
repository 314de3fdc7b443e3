"""The state of a meadow and the operations that keep it consistent: layout, tables, layers, energy ledger."""
