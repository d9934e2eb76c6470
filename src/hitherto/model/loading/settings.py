"""The settings a checkpoint comes with: each is used, known to be harmless, or refused by name."""

from collections.abc import Mapping
from typing import Any, NoReturn

from hitherto.errors import ModelError, explain

MOST = 1 << 24
"""No size in a config is larger."""

HARMLESS = frozenset(
    "_name_or_path architectures transformers_version torch_dtype dtype use_cache return_dict "
    "initializer_range initializer_factor bos_token_id eos_token_id pad_token_id sep_token_id "
    "unk_token_id cls_token_id is_decoder is_encoder_decoder id2label label2id problem_type "
    "output_attentions output_hidden_states chunk_size_feed_forward pretraining_tp "
    "attention_dropout attn_pdrop embd_pdrop resid_pdrop hidden_dropout "
    "summary_activation summary_first_dropout summary_proj_to_labels summary_type "
    "summary_use_proj task_specific_params reorder_and_upcast_attn n_ctx cache_implementation "
    "_attn_implementation _attn_implementation_autoset auto_map tokenizer_class "
    "_sliding_window_pattern".split()
)
"""Keys that say nothing about what the model computes: who saved it and how, token ids (which the
tokenizer's own files repeat), and dropout, which is for a training that is over."""

MISSING: Any = object()


class Settings:
    """A table of settings that keeps account of what was read."""

    def __init__(self, values: Mapping[str, Any], origin: str) -> None:
        self.values, self.origin = values, origin
        self.seen: set[str] = set(HARMLESS)

    def take(self, name: str, kind: type, default: Any = MISSING) -> Any:
        """A setting of a type; the default where it is absent or null.

        A size (int) must be 1 .. MOST; a float may be written as an int.
        """
        self.seen.add(name)
        value: Any = self.values.get(name)
        if value is None and default is not MISSING:
            return default
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            self.refuse(name, f"must be given, as {kind.__name__}", value)
        if isinstance(value, int) and kind is int and not 1 <= value <= MOST:
            self.refuse(name, f"must be from 1 to {MOST}", value)
        return value

    def choose(self, name: str, values: Mapping[str, Any], default: str | None = None) -> Any:
        """What a setting stands for, among those we do."""
        self.seen.add(name)
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in values:
            self.refuse(name, f"must be one of {', '.join(values)}", value)
        return values[value]

    def expect(self, name: str, *allowed: Any) -> None:
        """A setting that changes what is computed, and of which we do only these values or none."""
        self.seen.add(name)
        value = self.values.get(name)
        if value is not None and value not in allowed:
            self.refuse(name, f"must be {' or '.join(map(repr, allowed))} or absent", value)

    def skip(self, *names: str) -> None:
        """Settings that another one makes unnecessary here."""
        self.seen.update(names)

    def finish(self) -> None:
        """Raise ModelError if a setting is left that asks for something."""
        for name, value in self.values.items():
            if name not in self.seen and value is not None and value is not False:
                self.refuse(name, "must be a setting that we know", value)

    def refuse(self, name: str, rule: str, came: Any) -> NoReturn:
        """Raise ModelError about one setting."""
        raise ModelError(
            explain(f"{self.origin}: {name[:80]}", rule, came, "use another model, or transformers")
        )
