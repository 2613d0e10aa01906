"""Protocols for `isinstance` whose answer is cached for each class."""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Protocol

_ANSWERS: dict[tuple[type, type], bool] = {}

if TYPE_CHECKING:
    ProtocolMeta = ABCMeta
else:
    ProtocolMeta = type(Protocol)


class AnsweredOnce(ProtocolMeta):
    """Caches, for each class, whether its instances implement a protocol.

    `typing` checks every member in each call, which takes longer than learning a thousand rows.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        asked = cls, type(instance)
        known = _ANSWERS.get(asked)
        if known is None:
            known = _ANSWERS[asked] = super().__instancecheck__(instance)
        return known


class Capability(Protocol, metaclass=AnsweredOnce):
    """Base of protocols that classes implement by having the members."""
