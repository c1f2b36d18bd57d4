"""What the places of a row belong to, which of them see each other, and what is kept of them."""
