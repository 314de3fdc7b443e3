"""The Arcade Learning Environment inside Gymnasium environments, exact also with sticky actions."""
