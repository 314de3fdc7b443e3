"""Payloads of large blocks, made part by part while they are written."""
