"""Caches: keys and values of one layer, kept with their absolute positions."""

from hitherto.cache.growing import Growing
from hitherto.cache.paged import Paged, Pool
from hitherto.cache.rolling import Rolling

__all__ = ["Growing", "Paged", "Pool", "Rolling"]
