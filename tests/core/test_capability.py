"""Capabilities are found by the members of a class, and asked for once."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mixfold.core.capability import Capability


@runtime_checkable
class Sized(Capability, Protocol):
    """Has a size that can be made larger."""

    @property
    def size(self) -> int:
        """How large it is."""

    def grow(self) -> None:
        """Make it larger."""


class Grows:
    asked = 0

    @property
    def size(self) -> int:
        type(self).asked += 1
        return 1

    def grow(self) -> None:
        return


class Stays:
    size = 1


class GrowsMore(Grows):
    pass


def test_an_object_has_a_capability_if_its_class_has_the_members() -> None:
    for _ in range(2):
        assert isinstance(Grows(), Sized)
        assert isinstance(GrowsMore(), Sized)
        assert not isinstance(Stays(), Sized)
        assert not isinstance(1, Sized)


def test_properties_are_not_computed_again_to_answer() -> None:
    isinstance(Grows(), Sized)
    asked = Grows.asked

    assert isinstance(Grows(), Sized)
    assert Grows.asked == asked
