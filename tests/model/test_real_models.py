"""Real models say what transformers says with the same weights."""

import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

from hitherto.generation import Sampling, generate
from model.real import PROMPT, gemma3_model, library_model, path_of, smollm2_model

CLOSE = {"rtol": 0, "atol": 1e-4}
GREEDY = Sampling(temperature=0)


def greedy(pretrained, count: int) -> list[int]:
    prompt = pretrained.tokenizer.encode(PROMPT)
    pieces = generate(
        pretrained.model, [prompt], GREEDY, max_tokens=count, tokenizer=pretrained.tokenizer
    )
    return [piece.token for piece in pieces]


def library_greedy(pretrained, count: int) -> list[int]:
    prompt = torch.tensor([pretrained.tokenizer.encode(PROMPT)])
    model = library_model(pretrained)
    ends = sorted(pretrained.tokenizer.ends)
    with torch.no_grad():
        out = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, do_sample=False,
            eos_token_id=ends,
        )  # fmt: skip
    return out[0, prompt.shape[1] :].tolist()


@torch.no_grad()
def test_smollm2_gives_the_logits_of_transformers():
    pretrained = smollm2_model()
    ids = torch.tensor([pretrained.tokenizer.encode(f"{PROMPT} is 2,024 years old.\n")])
    expected = library_model(pretrained)(ids).logits
    assert_close(pretrained.model(ids), expected, **CLOSE)


def test_smollm2_writes_what_transformers_writes():
    assert greedy(smollm2_model(), 30) == library_greedy(smollm2_model(), 30)


@pytest.mark.slow
def test_smollm2_writes_what_transformers_writes_for_200_tokens():
    assert greedy(smollm2_model(), 200) == library_greedy(smollm2_model(), 200)


@pytest.mark.slow
def test_smollm2_reads_its_file_as_transformers_does(monkeypatch):
    """Its own reading of the file, dequantisation included."""
    pytest.importorskip("accelerate", reason="transformers reads GGUF files with it")
    transformers = pytest.importorskip("transformers", reason="is what we compare with")
    path = path_of("smollm2")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    ids = torch.tensor([smollm2_model().tokenizer.encode(PROMPT)])
    with torch.no_grad():
        assert_close(smollm2_model().model(ids), model(ids).logits, **CLOSE)


@pytest.mark.slow
@torch.no_grad()
def test_gemma3_gives_the_logits_of_transformers_beyond_its_window():
    """600 tokens, windows of 512: would catch a window off by one and a wrong rotary base."""
    pretrained = gemma3_model()
    text = "".join(f"{n} is followed by {n + 1}, and that is all. " for n in range(80))
    ids = torch.tensor([pretrained.tokenizer.encode(text)[:600]])
    assert ids.shape[1] == 600
    ours, library = pretrained.model(ids)[0], library_model(pretrained)
    theirs = library(ids).logits[0]
    apart = (ours - theirs).abs().amax(-1)
    # A row may be so ill-conditioned that float32 itself is further off than that, in both.
    hard = (apart > 1e-4).nonzero()[:, 0].tolist()
    assert len(hard) <= 3
    exact = library.double()(ids).logits[0, hard]
    errors = [(found[hard] - exact).abs().amax(-1) for found in (ours, theirs)]
    assert (errors[0] <= 1.5 * errors[1]).all(), (apart[hard], *errors)


@pytest.mark.slow
def test_gemma3_writes_what_transformers_writes():
    assert greedy(gemma3_model(), 60) == library_greedy(gemma3_model(), 60)


MEASURE = """
import sys, time, resource
import torch, gguf, tokenizers
from hitherto.model.loading import load
import hitherto.generation
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before, start = peak(), time.perf_counter()
found = load(sys.argv[1], getattr(torch, sys.argv[2]))
took = time.perf_counter() - start
weights = sum(p.nbytes for p in found.model.parameters())
print((peak() - before) / weights, took)
"""


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "bfloat16"])
def test_smollm2_is_loaded_in_little_more_memory_than_its_weights(dtype):
    """Would catch weights that are held twice, or in float32 on their way to bfloat16."""
    path = path_of("smollm2")
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), dtype],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    share, _ = map(float, run.stdout.split())
    assert share < 1.3
