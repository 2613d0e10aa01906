"""Protocols that are asked for with `isinstance`, and answered once for each class."""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Protocol

_ANSWERS: dict[tuple[type, type], bool] = {}

if TYPE_CHECKING:
    ProtocolMeta = ABCMeta
else:
    ProtocolMeta = type(Protocol)


class AnsweredOnce(ProtocolMeta):
    """Whether an object offers a protocol depends on its class alone.

    `typing` looks at every member anew, which takes longer than learning a thousand rows.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        asked = cls, type(instance)
        known = _ANSWERS.get(asked)
        if known is None:
            known = _ANSWERS[asked] = super().__instancecheck__(instance)
        return known


class Capability(Protocol, metaclass=AnsweredOnce):
    """What some classes offer, found by their members: there is nothing to register."""
