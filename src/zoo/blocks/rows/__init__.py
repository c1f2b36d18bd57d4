"""Packed rows: their documents, who may attend to whom, and the key/value cache."""
