"""Generation: prefill, decode, sampling, stopping, streaming."""

from hitherto.generation.decoding import Piece, complete, generate
from hitherto.generation.prefill import prefill
from hitherto.generation.sampling import Sampling, sample
from hitherto.generation.streaming import stream_text

__all__ = ["Piece", "Sampling", "complete", "generate", "prefill", "sample", "stream_text"]
