"""How long processes live: they end with those that started them, with what these started, or because they hang."""
