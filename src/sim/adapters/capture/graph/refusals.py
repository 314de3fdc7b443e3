"""STUB"""
def refusal(value): return None
