"""Longformer and BigBird in one line each: `python examples/bigbird_longformer.py`.

Both see a band around the query and a few global tokens; BigBird also some random blocks. Pairs
grow with the length, not with its square, and the mask takes memory for its rows only.
"""

from hitherto import Band, Keys, Queries, RandomBlocks, bind, blocks, draw, pairs

GLOBAL = range(2)
LONGFORMER = Band(6, 6) | Keys(GLOBAL) | Queries(GLOBAL)
BIGBIRD = LONGFORMER | RandomBlocks(block=4, count=2, seed=0)


def main() -> None:
    for name, mask in (("Longformer", LONGFORMER), ("BigBird", BIGBIRD)):
        print(f"{name}: {mask}")
        print(draw(mask, 24))

    wide = {
        "Longformer": Band(256, 256) | Keys(range(64)) | Queries(range(64)),
        "BigBird": Band(192, 192) | Keys(range(128)) | Queries(range(128)) | RandomBlocks(64, 3),
    }
    for name, mask in wide.items():
        print(
            f"\n{name}, usual sizes         tokens     pairs a token    blocks skipped     memory"
        )
        for tokens in (4096, 16384, 65536):
            spans = bind(mask, tokens, tokens)
            full, partial = blocks(spans, 128, 128).counts()
            skipped = 1 - (full + partial) / (tokens // 128) ** 2
            each = pairs(spans) / tokens
            print(f"{tokens:>30,} {each:>17,.0f} {skipped:>17.1%} {spans.nbytes / 1024:>8,.0f} KiB")
        assert each < 1100
        assert skipped > 0.97


if __name__ == "__main__":
    main()
