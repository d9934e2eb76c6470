"""Adapters for other libraries; each is imported only by those who use its library."""
