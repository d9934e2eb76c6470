"""Generation: prefill, decode, sampling, stopping, streaming, many requests, speculation."""

from hitherto.generation.decoding import complete, generate
from hitherto.generation.lookup import Lookup
from hitherto.generation.prefill import prefill
from hitherto.generation.request import Piece, Request
from hitherto.generation.sampling import Sampling, sample
from hitherto.generation.score import Score, score
from hitherto.generation.serving import Serving
from hitherto.generation.speculation import Speculation
from hitherto.generation.streaming import stream_text

__all__ = [
    "Lookup",
    "Piece",
    "Request",
    "Sampling",
    "Score",
    "Serving",
    "Speculation",
    "complete",
    "generate",
    "prefill",
    "sample",
    "score",
    "stream_text",
]
