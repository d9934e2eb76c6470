"""Small models with one planted fault each, and clean twins: what an audit must tell apart.

Read `decoder.py` first: every specimen is that decoder with one part swapped.

    decoder.py   the clean decoder and its hooks
    specimen.py  what a specimen says of itself
    peeks.py     masks that let the future in, always or under one condition
    windows.py   wrong edges of windows, chunks, prefixes; models blind to what they may see
    mixing.py    convolutions, FFT, norms, routing and recurrences that look ahead
    rows.py      pads, packed documents, batch neighbours, earlier calls
    caches.py    right in the plain forward, wrong in cached steps
    labels.py    label shifts, and labels that reach their own prediction
    cross.py     encoder-decoders
    broken.py    models that cannot be judged as they are
    clean.py     clean twins, many of which look faulty
"""

from zoo import broken, caches, clean, cross, labels, mixing, peeks, rows, windows
from zoo.specimen import Specimen

_ROOMS = (peeks, windows, mixing, rows, caches, labels, cross, broken, clean)

SPECIMENS: tuple[Specimen, ...] = tuple(s for room in _ROOMS for s in room.SPECIMENS)
