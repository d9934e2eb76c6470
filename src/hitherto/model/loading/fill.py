"""Building a decoder whose weights lie in a file, without ever holding them twice."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hitherto.errors import ModelError, explain
from hitherto.model.config import DecoderConfig
from hitherto.model.decoder import Decoder
from hitherto.model.loading.places import Place, count_layers, places
from hitherto.model.loading.stored import Stored

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def build(
    config: DecoderConfig, tensors: Mapping[str, Stored], kind: str, dtype: torch.dtype
) -> Decoder:
    """A decoder with the stored weights.

    Tensors that are stored as the decoder needs them are mapped, not read: the system brings in
    what is used. All others are converted piece by piece, as many at once as torch has threads.

    Raises:
        ModelError: when a tensor is missing, left over, or of another shape than the config says;
            before anything large is allocated.
    Cost: memory of the weights in `dtype`, and a few MiB.
    """
    if dtype not in DTYPES:
        raise ModelError(explain("dtype", f"must be one of {DTYPES}", dtype, "use torch.float32"))
    model = _outline(config)
    found = places(config, dict(model.named_parameters()), tensors, kind)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        filled = pool.map(lambda place: _filled(place, dtype), found.values())
        state = dict(zip(found, filled, strict=True))
    model.load_state_dict(state, assign=True)
    return model


def require_layers(tensors: Mapping[str, Stored], kind: str, claimed: object) -> None:
    """Raise ModelError unless a config claims the layers that are stored; before any is built."""
    layers = count_layers(tensors, kind)
    if type(claimed) is not int or layers != claimed:
        raise ModelError(
            explain("number of layers", f"must be that of the tensors, {layers}", claimed,
                    "fetch the files again, or use another model")
        )  # fmt: skip


def _outline(config: DecoderConfig) -> Decoder:
    """The decoder without memory for its weights."""
    try:
        with torch.device("meta"), _Undrawn():
            return Decoder(config)
    except RuntimeError as error:  # sizes whose product no computer counts to
        raise ModelError(
            explain("config", "must have sizes that fit together", str(error), "use another model")
        ) from error


class _Undrawn(TorchFunctionMode):
    """Leaves weights undrawn that are about to be replaced.

    Even on the meta device drawing one has torch import its compiler, for seconds.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(function, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


def _filled(place: Place, dtype: torch.dtype) -> Tensor:
    stored = place.stored
    if place.is_whole and (mapped := stored.mapped(dtype)) is not None:
        return mapped
    parameter = torch.empty(place.shape, dtype=dtype)
    if place.part is not None or place.transposed or len(stored.shape) < 2:
        return parameter.copy_(_whole(place))
    order = place.order()
    for start, stop in stored.steps():
        rows = slice(start, stop) if order is None else order[start:stop]
        parameter[rows] = stored.read_rows(start, stop).to(dtype)
    return parameter


def _whole(place: Place) -> Tensor:
    values, order = place.stored.read(), place.order()
    values = values.mT if place.transposed else values
    if place.part is not None:
        values = values[slice(*place.part)]
    if order is not None:
        values = torch.empty_like(values).index_copy_(0, order, values)
    return values
