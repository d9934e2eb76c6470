"""What a decoder is made of, as one value."""

from dataclasses import dataclass
from typing import Literal

from hitherto.errors import MaskError, ModelError
from hitherto.mask import Mask, parse
from hitherto.model.values import require, require_above, require_types

Positions = Literal["learned", "rotary", "relative", "none"]
NormKind = Literal["layer", "rms"]
Activation = Literal["gelu", "gelu_tanh", "silu", "relu", "relu_squared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """Sizes and choices of a `Decoder`. Presets: `gpt2()`, `llama()`, `gemma3()`, `tiny()`."""

    vocab_size: int
    """Token ids are 0 .. vocab_size - 1."""
    width: int
    """Floats in a token's vector between blocks."""
    num_layers: int
    """Blocks, one after another."""
    num_heads: int
    """Query heads."""
    num_kv_heads: int = 0
    """Key and value heads, a divisor of num_heads; 0 stands for num_heads."""
    head_dim: int = 0
    """Floats in a head's query and key; 0 stands for width / num_heads."""
    hidden: int = 0
    """Floats inside the feed-forward; 0 stands for 4 * width."""
    max_length: int | None = None
    """Positions the model may be run at; None = no limit. Learned positions need one."""
    layer_masks: tuple[str, ...] = ("Causal()",)
    """Text of each layer's mask, repeated from the start when the layers are more."""
    positions: Positions = "rotary"
    """How a token knows its place: a learned vector, rotary angles, a relative bias, or not."""
    rotary_bases: tuple[float, ...] = (10_000.0,)
    """Rotary base of each layer, repeated like layer_masks."""
    rotary_scales: tuple[float, ...] = (1.0,)
    """Positions are divided by this before rotation, repeated like layer_masks."""
    rotary_factors: tuple[float, ...] = ()
    """Pair i of every head turns this many times slower: one factor a pair, or none at all. Llama
    3.1 slows the pairs whose period is longer than its first context."""
    relative_buckets: int = 32
    """Rows of the table of relative biases, which all layers share."""
    relative_distance: int = 128
    """Distances from here on share the last bucket."""
    norm: NormKind = "rms"
    """LayerNorm or RMSNorm."""
    norm_eps: float = 1e-6
    """Added under the root."""
    norm_offset: bool = False
    """RMSNorm multiplies by 1 + weight instead of weight."""
    norm_after: bool = False
    """Also normalise what attention and feed-forward give, before it is added."""
    norm_qk: bool = False
    """Normalise each head's query and key before rotation."""
    activation: Activation = "silu"
    """Inside the feed-forward."""
    gated: bool = True
    """Feed-forward is down(activation(gate(x)) * up(x)) instead of down(activation(up(x)))."""
    bias: bool = False
    """Linear layers and LayerNorms have a bias."""
    qkv_bias: bool = False
    """Query, key and value have a bias even where nothing else has one, as in Qwen 2."""
    tied: bool = False
    """Logits use the embedding's own weights."""
    embedding_scale: float = 1.0
    """Embeddings are multiplied by this; Gemma uses sqrt(width)."""
    score_scale: float | None = None
    """Scores are multiplied by this; head_dim ** -0.5 unless given."""
    score_softcap: float | None = None
    """Scores become cap * tanh(score / cap)."""
    logit_softcap: float | None = None
    """Logits become cap * tanh(logit / cap)."""

    def __post_init__(self) -> None:
        require_types(self)
        require_above(self, 0, "vocab_size", "width", "num_layers", "num_heads", "max_length")
        require_above(self, 0, "norm_eps", "relative_distance")
        require_above(self, -1, "num_kv_heads", "head_dim", "hidden")
        require_above(self, 0, "score_scale", "score_softcap", "logit_softcap")
        require_above(self, 1, "relative_buckets")
        for name in ("layer_masks", "rotary_bases", "rotary_scales"):
            require(self, name, len(getattr(self, name)) > 0, "must name at least one layer's")
        self._fill()
        even = self.positions != "rotary" or self.head_dim % 2 == 0
        require(self, "head_dim", even, "must be even for rotary positions")
        factors = len(self.rotary_factors) in (0, self.head_dim // 2)
        factors = factors and all(factor > 0 for factor in self.rotary_factors)
        require(self, "rotary_factors", factors, "must be one number > 0 for each pair of a head")
        limited = self.positions != "learned" or self.max_length is not None
        require(self, "max_length", limited, "must be given for learned positions")
        self.masks()

    def _fill(self) -> None:
        """Put a number where 0 means that it follows from the others."""
        rest = self.head_dim > 0 or self.width % self.num_heads == 0
        require(self, "width", rest, f"must be a multiple of num_heads={self.num_heads}")
        defaults = (
            ("head_dim", self.width // self.num_heads),
            ("num_kv_heads", self.num_heads),
            ("hidden", 4 * self.width),
        )
        for name, value in defaults:
            if getattr(self, name) == 0:
                object.__setattr__(self, name, value)
        fits = self.num_heads % self.num_kv_heads == 0
        require(self, "num_heads", fits, f"must be a multiple of num_kv_heads={self.num_kv_heads}")

    def masks(self) -> tuple[Mask, ...]:
        """The mask of each layer, first to last."""
        try:
            cycle = [parse(text) for text in self.layer_masks]
        except MaskError as error:
            raise ModelError(f"DecoderConfig.layer_masks: {error}") from error
        return tuple(cycle[layer % len(cycle)] for layer in range(self.num_layers))

    def rotaries(self) -> tuple[tuple[float, float], ...]:
        """Base and scale of each layer's rotary angles, first to last."""
        bases, scales = self.rotary_bases, self.rotary_scales
        return tuple(
            (bases[layer % len(bases)], scales[layer % len(scales)])
            for layer in range(self.num_layers)
        )
