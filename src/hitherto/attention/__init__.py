"""attend: exact attention under any mask, on the backend that suits it."""

from hitherto.attention.attend import attend, choose
from hitherto.attention.bias import Alibi, Relative
from hitherto.attention.choose import BACKENDS, Capabilities, Choice
from hitherto.attention.weights import attention_weights

__all__ = [
    "BACKENDS",
    "Alibi",
    "Capabilities",
    "Choice",
    "Relative",
    "attend",
    "attention_weights",
    "choose",
]
