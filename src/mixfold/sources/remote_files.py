"""Remote files with options of their file system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mixfold.core.errors import InvalidInputError
from mixfold.sources.location import is_address


@dataclass(frozen=True)
class RemoteFiles:
    """Addresses with options of their file system; give it to any call instead of the address.

    Options have the names of fsspec, as in pandas and Dask.

    Parameters
    ----------
    paths : address or list of addresses
        Such as "s3://bucket/rides/*.parquet".
    storage_options : dict
        For `s3://` such as {"anon": True}, {"endpoint_url": "http://127.0.0.1:9000"}, or "key",
        "secret" and "token"; others are given to the package of the protocol. They are not saved.

    Examples
    --------
    >>> import fsspec, io, numpy as np
    >>> from mixfold import Mixture, RemoteFiles
    >>> file = io.BytesIO()
    >>> np.save(file, np.array([[1.0], [3.0]]))
    >>> fsspec.filesystem("memory").pipe("/bucket/x.npy", file.getvalue())
    >>> files = RemoteFiles("memory://bucket/x.npy", {"skip_instance_cache": False})
    >>> Mixture().fit(files).means_
    array([[2.]])
    """

    paths: str | Sequence[str]
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for address in self.addresses:
            if not is_address(address):
                raise InvalidInputError(
                    f"paths has {address!r}: an address such as 's3://bucket/key' is needed"
                )
        if not isinstance(self.storage_options, Mapping):
            raise InvalidInputError(
                f"storage_options is a {type(self.storage_options).__name__}: a dict is needed"
            )

    @property
    def addresses(self) -> Sequence[str]:
        """All addresses."""
        return [self.paths] if isinstance(self.paths, str) else list(self.paths)
