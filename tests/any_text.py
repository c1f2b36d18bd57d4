"""Texts of any characters that UTF-8 can write, for hypothesis to draw."""

from hypothesis import strategies as st

# hypothesis' own text() is the same, but tries each of a million characters to learn that only surrogates are refused
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
