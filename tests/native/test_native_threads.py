"""Threads: one pool with torch, the same bits every time, no waiting for threads that are gone."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from attention.cases import MASKS
from hitherto.attention import Relative, native
from hitherto.mask import Causal
from native.kernels import assert_agree, built, call, every_set, natively, some_grads

pytestmark = built


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def _inputs(heads: int, kv_heads: int, queries: int, keys: int, **options):
    random = torch.Generator().manual_seed(3)
    q = torch.randn(1, heads, queries, 16, generator=random)
    k, v = (torch.randn(1, kv_heads, keys, 16, generator=random) for _ in range(2))
    return call(q, k, v, Causal(), **options)


@every_set
@pytest.mark.parametrize("shape", [(3, 3, 500, 500), (1, 1, 500, 500), (4, 1, 2, 3000)])
def test_two_threads_agree_with_float64_and_with_themselves(shape, kernels, two_threads):
    """Sums in the order in which threads happen to finish."""
    inputs, terms = _inputs(*shape, bias=Relative(torch.randn(shape[0], 33)))
    assert_agree(inputs, terms, kernels)
    grads = some_grads(inputs)
    first = natively(inputs, terms, grads, kernels)
    for _ in range(5):
        again = natively(inputs, terms, grads, kernels)
        assert all(torch.equal(first[name], again[name]) for name in first)


@every_set
def test_one_thread_gives_the_same_output_as_two(kernels, two_threads):
    """A block of rows that depends on who computes it."""
    inputs, terms = _inputs(4, 2, 300, 300)
    two = native.forward(inputs, terms, kernels)
    torch.set_num_threads(1)
    one = native.forward(inputs, terms, kernels)
    assert torch.equal(one[0], two[0])


@every_set
def test_calls_from_many_python_threads_do_not_disturb_each_other(kernels, two_threads):
    """Scratch memory or a schedule shared between calls."""
    calls = [_inputs(2, 2, 100 + n, 300) for n in range(8)]
    alone = [native.forward(*one, kernels)[0] for one in calls]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            together = list(pool.map(lambda one: native.forward(*one, kernels)[0], calls))
            assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def _run(code: str) -> str:
    setup = f"import hitherto; hitherto.__path__[:] = {list(_path())!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", setup + code], capture_output=True, text=True, timeout=120,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def _path():
    import hitherto

    return hitherto.__path__


CALL = """
import torch
from hitherto.attention import native
from hitherto.attention.prepare import prepare
from hitherto.mask import Causal
q = torch.ones(1, 2, 300, 16)
call = prepare(q, q, q, Causal(), None, None, None, None, None, None)
"""


def test_native_shares_the_openmp_library_of_torch():
    """Two pools of threads that spin against each other for the same cores."""
    show = "print([x for x in open('/proc/self/maps').read().split() if 'libgomp' in x])"
    found = set(eval_list(_run(CALL + "native.forward(*call)\n" + show)))
    assert len(found) == 1, found
    assert "torch" in found.pop()


def eval_list(text: str) -> list[str]:
    return [part.strip("[]' \n") for part in text.split(",")]


def test_a_forked_process_does_not_wait_for_threads_it_has_lost():
    """libgomp in a child waits for ever for the parent's threads."""
    fork = """
import os
torch.set_num_threads(2)
before = native.forward(*call)[0]
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(native.forward(*call)[0], before) else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert _run(CALL + fork).strip() == "0"


def test_masks_of_the_suite_bind_to_layouts_once():
    """A layout built again for every call would cost more than short inputs do."""
    q = torch.randn(2, 4, 137, 8)
    k = torch.randn(2, 4, 200, 8)
    inputs, terms = call(q, k, k, MASKS["packed"])
    native.forward(inputs, terms)
    hits = native._layout.cache_info().hits
    native.forward(inputs, terms)
    assert native._layout.cache_info().hits == hits + 1
