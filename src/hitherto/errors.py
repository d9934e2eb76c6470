"""The errors a user may meet, and the one form their messages take."""


class MaskError(ValueError):
    """A mask, or a grid it is put on, that has no meaning."""


class Unsupported(ValueError):
    """A backend or target that cannot do exactly what was asked; the message says what could."""


class ModelError(ValueError):
    """A config, checkpoint or text that cannot be used as it is."""


def explain(argument: str, rule: str, came: object, fix: str) -> str:
    """Spell an error in four parts: which argument, what rule, what came, what to do."""
    text = came if isinstance(came, str) else repr(came)
    if len(text) > 200:
        text = text[:197] + "..."
    end = "" if fix.endswith("?") else "."
    return f"{argument} {rule}; got {text}. {fix[0].upper()}{fix[1:]}{end}"
