"""One rule a file, called as the rule, in folders by subject."""
