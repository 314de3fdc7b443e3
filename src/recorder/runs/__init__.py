"""One run: where its inputs come from, which mode suits it, how it ended."""
