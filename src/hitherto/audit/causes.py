"""The closed list of likely causes: what each means and what to look at next."""

CAUSES = {
    # leak
    "mask dropped": "pass the mask to this attention, or is_causal=True where it is square",
    "pools or normalises over time": "take the statistic over the past only, or over features",
    "softmax over the wrong axis": "normalise each query's scores over the keys, the last axis",
    "polarity": "the library reads the mask the other way round: invert it once, at the call",
    "off by one": "compare with k <= q; triu and tril need diagonal=1 and 0 to mean causal",
    "convolution reaches ahead": "pad on the left only: dilation * (kernel - 1), and cut the right",
    "sees its whole block": "only earlier blocks and the block's own past may enter",
    "wraps around": "zero-pad to twice the length before an FFT, and do not roll over time",
    "routing over the sequence": "choose experts a token at a time: no rank, no capacity over time",
    "window counts more keys": "Window(w) holds w keys, the query included; check < against <=",
    "window dropped": "the window is not applied here: pass it to this attention too",
    "top-left alignment": "queries are the last of the keys: compare absolute positions",
    "finite mask value": "hide with -inf or select after the softmax; do not add a small number",
    "only the gradient crosses": "the forward is clean; look for detach, a custom backward or a "
    "straight-through estimator",
    "wrong mask": "compare the measured map with the declared one in the report",
    # blind
    "window counts fewer keys": "Window(w) holds w keys, the query included; check < against <=",
    "prefix or sinks hidden": "let every query see the first keys, also beyond the window",
    "past hidden": "nothing earlier arrives: check polarity, and that attention is added at all",
    "sees no key": "no input moves this output: is the row masked as a whole?",
    # documents, padding, batch
    "documents see each other": "give attention the documents, and restart positions in each",
    "position ids": "count positions from each document's or row's first real token",
    "pads are seen": "hide pads from attention, routing and every statistic over time",
    "batch rows mix": "keep every statistic within a row; if axis 0 is time, pass time_axis=0",
    # stages
    "cache offset": "positions and mask of a step start at the cache's length",
    "window applied at one stage only": "use the same mask in the forward and in cached steps",
    "prefill ignores the mask": "several tokens on a cache need the causal mask among themselves",
    "cache ignored": "a step of several tokens must see what the cache holds too",
    "cache reused dirty": "empty the cache, its length and its positions before another request",
    "stages disagree": "compare the layer named here with and without the cache",
    "reads memory never written": "fill the buffer, or mask the slots beyond the length",
    # modes
    "depends on the length": "count positions from the start, and scale by nothing of the length",
    "modes disagree": "the same weights and input give other numbers here: compare the two paths",
    # labels
    "labels not shifted": "score output i against token i + 1",
    "labels shifted twice": "shift in the data or in the model, not in both",
    "labels shifted across rows": "shift each row before flattening the batch",
    "loss not reproduced": "compute the cross-entropy of the outputs by hand and compare",
    "losses of rows mix": "no row's loss may use another row's labels",
    "label reaches its own prediction": "keep labels out of the forward",
    # broken, unstable
    "call fails": "make the call by hand with the input of the reproducer",
    "not finite": "look for rows that see nothing, and for overflow in 16 bits",
    "gradient not finite": "a fully masked row: replace its softmax by zeros before the backward",
    "output does not follow the input": "return one output a position, or pass time_axis",
    "outputs change from call to call": "seed or switch off what is random",
    "state kept between calls": "reset what the model remembers: the same request first and "
    "later gives other outputs",
    # no other fits
    "unexplained": "compare the measured map with the declared one in the report",
}
"""Cause -> what to do next. Findings use these strings and no others."""
