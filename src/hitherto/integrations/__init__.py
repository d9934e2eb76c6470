"""Adapters for other libraries; each imports its library inside its functions only."""
