"""The reference pages of the docs, made from the code whenever the site is built."""
