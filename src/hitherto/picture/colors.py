"""Colours of a picture: safe for colour-blind eyes, and of different lightness for printing."""

RGB = tuple[int, int, int]

VISIBLE: RGB = (0, 114, 178)
"""May attend, at or before the query: blue."""

AHEAD: RGB = (213, 94, 0)
"""May attend, after the query: vermilion."""

HIDDEN: tuple[RGB, ...] = (
    (226, 226, 226), (247, 229, 168), (238, 205, 224), (190, 230, 216), (205, 228, 246),
)  # fmt: skip
"""Hidden by the first, the second, ... part of a mask: pale grey, sand, pink, mint, sky."""


def hidden(part: int) -> RGB:
    """Return the colour of what the mask's part number `part`, from 0, hides."""
    return HIDDEN[part % len(HIDDEN)]


def hexadecimal(color: RGB) -> str:
    """Spell a colour as SVG does."""
    return "#" + "".join(f"{value:02x}" for value in color)


def terminal(color: RGB) -> int:
    """Return the nearest of the 216 colours that terminals have had for decades.

    Their levels are 0, 95, 135, 175, 215 and 255.
    """
    red, green, blue = (0 if v < 48 else max(1, (v - 35) // 40) for v in color)
    return 16 + 36 * red + 6 * green + blue
