"""Music whose rhythm is causal and whose harmony is free: `python examples/music_tracks.py`.

Two tracks in one row: 8 beats of rhythm, then 8 chords of harmony. A drummer must not know the
future; the harmony was written beforehand, so every chord sees every chord, and a beat sees the
chords up to its own. A union of masks, each right when read alone, says it.
"""

import numpy as np
import torch

from hitherto import Causal, Everything, Keys, Queries, Shift, attend, draw, evaluate, why

BEATS = 8
RHYTHM, HARMONY = range(BEATS), range(BEATS, 2 * BEATS)

MASK = (
    (Queries(RHYTHM) & Keys(RHYTHM) & Causal())
    | (Queries(HARMONY) & Keys(HARMONY) & Everything())
    | (Queries(RHYTHM) & Keys(HARMONY) & Shift(Causal(), k=BEATS))
)


def main() -> None:
    print(draw(MASK, 2 * BEATS))
    print("beat 2, chord 5:", why(MASK, 2, BEATS + 5).split(": ")[0])
    print("beat 5, chord 2:", why(MASK, 5, BEATS + 2).split(": ")[0])

    t = np.arange(BEATS)
    grid = evaluate(MASK, np.arange(2 * BEATS), np.arange(2 * BEATS))
    assert (grid[:BEATS, :BEATS] == (t <= t[:, None])).all()
    assert (grid[:BEATS, BEATS:] == (t <= t[:, None])).all()
    assert grid[BEATS:, BEATS:].all()
    assert not grid[BEATS:, :BEATS].any()

    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 2 * BEATS, 8)
    before = attend(q, k, v, MASK)
    v[:, :, 6] += 1  # the drummer changes beat 6
    moved = (attend(q, k, v, MASK) != before).any(-1).any(1)[0].nonzero().flatten().tolist()
    print(f"changing beat 6 moves rows {moved}: beats from 6 on, and no chord")
    assert moved == [6, 7]


if __name__ == "__main__":
    main()
