"""What other code has changed in captured objects since the last step, without capturing them."""
