"""Small simulations in two versions of the code: sound/ has the correct versions, faulty/ has one planted defect each.

The modules of both folders have the same names, one for each cause that DESYNC.md lists. The guilty line of a class ends
in ``# HERE: Name``.
"""
