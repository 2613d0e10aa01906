"""What several tests of this folder begin with."""

from __future__ import annotations

import pytest
import torch

from mixfold.backends import gpu
from mixfold.kernels import _products


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    gpu.say_short_of_memory.cache_clear()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    return str(request.param)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks a tile, several tiles a piece, several pieces a block, several blocks."""
    monkeypatch.setattr(_products, "CHUNK_ELEMENTS", 160)
    monkeypatch.setattr(gpu, "MOST_ROWS", 64)
    monkeypatch.setattr(gpu, "PIECE_ELEMENTS", 300)
    monkeypatch.setattr(gpu, "BLOCK_ELEMENTS", 600)
