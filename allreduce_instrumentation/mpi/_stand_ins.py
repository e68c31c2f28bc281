"""Classes that take the place of mpi4py's names.

mpi4py's classes cannot be changed, and neither can what ``MPI.Request.Waitall`` or ``MPI.Win.Create`` does.
So the *names* are given to stand-ins when the first timed communicator is made. A stand-in has the same
methods, some of them timed; it makes mpi4py's own objects, and ``isinstance`` checks for mpi4py's own class.
What was imported before (``from mpi4py.MPI import Request``) is mpi4py's own.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

_originals: dict[str, type] = {}


class StandIn(type):
    """The metaclass of classes that stand in for ``original``, and make and recognise its objects.

    A copy of an object of the class ``timed`` is one, too.
    """

    original: type
    timed: type | None

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, object]) -> Any:
        """Derive a subclass of a stand-in from the original instead."""
        own = tuple(base.original if isinstance(base, StandIn) else base for base in bases)
        return type(name, own, namespace)

    @classmethod
    def of(mcs, original: type, *methods: type, timed: type | None = None) -> StandIn:
        """Return a stand-in for ``original`` that has the methods of the classes ``methods``."""
        namespace = {"__doc__": original.__doc__, "__module__": original.__module__, "__slots__": ()}
        stand_in = type.__new__(mcs, original.__name__, (*methods, original), namespace)
        stand_in.original, stand_in.timed = original, timed
        return stand_in

    def __call__(cls, *args: object, **kwargs: object) -> object:
        if cls.timed is not None and args and isinstance(args[0], cls.timed):
            copy = cls.timed(*args, **kwargs)
            vars(copy).update(vars(args[0]))
            return copy
        return cls.original(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.original)


def put_in_place(stand_in: StandIn) -> None:
    """Give the name of mpi4py's class to its stand-in; further calls do nothing.

    To be called before the program uses the name: ``MPI.Request.Waitall([comm.Isend(...)])`` looks up
    ``MPI.Request`` before it calls ``Isend``.
    """
    name = stand_in.original.__name__
    if getattr(MPI, name) is stand_in.original:
        setattr(MPI, name, stand_in)
        _originals[name] = stand_in.original
        copyreg.pickle(stand_in.original, _reduced)


def _reduced(handle: Any) -> str | tuple[Callable[..., Any], tuple[object, ...]]:
    """Return what pickle needs for a null handle, whose class is no longer found under its name."""
    reduced = handle.__reduce__()
    if isinstance(reduced, str):  # a constant's name
        return reduced
    _, (_, *arguments) = reduced
    return _original, (type(handle).__name__, *arguments)


def _original(name: str, *arguments: Any) -> Any:
    return _originals.get(name, getattr(MPI, name))(*arguments)
