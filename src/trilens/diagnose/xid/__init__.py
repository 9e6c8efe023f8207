"""Xids explained, and kernel logs read: what each code means, which came first and which only follow."""
