"""Translation: padding of the source is hidden, the target is causal, caches change nothing."""

import pytest
import torch
from torch.testing import assert_close

from hitherto.errors import ModelError
from hitherto.model import DecoderConfig, EncoderDecoder, EncoderDecoderConfig
from model.families import SMALL, VOCAB, tokens

PADDING = 0


@pytest.fixture
def model() -> EncoderDecoder:
    encoder = DecoderConfig(**SMALL, num_heads=4, layer_masks=("Everything()",))
    decoder = DecoderConfig(**SMALL, num_heads=4, tied=True)
    config = EncoderDecoderConfig(encoder=encoder, decoder=decoder, padding=PADDING)
    model = EncoderDecoder(config).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator).double()
    return model


def sources(lengths: list[int]) -> torch.Tensor:
    rows = [1 + tokens(1, n, seed=n, vocab=VOCAB - 1)[0] for n in lengths]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


def test_encoder_decoder_padding_of_the_source_changes_nothing(model):
    """Would catch padding seen by the encoder or by cross-attention."""
    source, target = sources([9, 4, 6]), tokens(3, 12)
    together = model(source, target)
    for row, length in enumerate([9, 4, 6]):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        assert_close(together[row], alone[0], rtol=0, atol=1e-11)


def test_encoder_decoder_cached_steps_equal_one_pass(model):
    source, target = sources([9, 4]), tokens(2, 12)
    whole = model(source, target).detach()
    read, cache = model.read(source), model.cache()
    steps = [model.decode(target[:, t : t + 1], read, cache=cache) for t in range(12)]
    assert_close(torch.cat(steps, dim=1), whole, rtol=0, atol=1e-11)


def test_encoder_decoder_target_is_causal_and_source_is_seen_both_ways(model):
    source, target = sources([7]), tokens(1, 6)
    before = model(source, target)
    later = target.clone()
    later[0, 3] = (target[0, 3] + 1) % VOCAB
    assert torch.equal(model(source, later)[:, :3], before[:, :3])
    other = source.clone()
    other[0, 6] = source[0, 6] % (VOCAB - 1) + 1
    assert not torch.equal(model(other, target)[:, 0], before[:, 0])
    first, changed = model.read(source)[0].keys, model.read(other)[0].keys
    assert not torch.equal(first[:, :, 0], changed[:, :, 0])


def test_encoder_decoder_widths_must_agree():
    small, large = (DecoderConfig(**{**SMALL, "width": w}, num_heads=4) for w in (24, 32))
    with pytest.raises(ModelError, match="encoder's width of 24"):
        EncoderDecoderConfig(encoder=small, decoder=large)
