"""Video frames and words on one clock: `python examples/video_and_text.py`.

Frames come every 0.5 s; words when they are spoken. A word may see the frames shown by then, and a
live captioner that waits 0.3 s may see that much more. Times decide, not the order in the row.
"""

import numpy as np

from hitherto import Timeline, draw, evaluate, is_causal, why

FRAMES = np.arange(8) * 0.5
WORDS = np.array([0.2, 0.7, 0.9, 1.6, 2.4, 3.3])


def main() -> None:
    live = Timeline(WORDS, FRAMES)
    late = Timeline(WORDS, FRAMES, lookahead=0.3)
    for name, mask in (("live", live), ("0.3 s late", late)):
        print(f"{name}: {len(WORDS)} words by {len(FRAMES)} frames")
        print(draw(mask, len(WORDS), len(FRAMES), q_start=0))
    print(why(live, 1, 2))
    print(why(late, 1, 2))

    by_hand = FRAMES[None, :] <= WORDS[:, None]
    assert (evaluate(live, np.arange(6), np.arange(8)) == by_hand).all()

    row = np.concatenate([FRAMES, WORDS])
    order = np.argsort(row, kind="stable")
    clock = Timeline(row[order], row[order])
    print("all in one row, sorted by time:", is_causal(clock, len(row)).reason)
    assert is_causal(clock, len(row))
    shuffled = Timeline(row, row)
    answer = is_causal(shuffled, len(row))
    print("frames first, then words:", answer.reason)
    print("  position is not time: ask the clock, as this mask does")
    assert not answer


if __name__ == "__main__":
    main()
