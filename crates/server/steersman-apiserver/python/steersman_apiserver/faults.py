"""Planned failures of a server."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Type

from .control import Control, ControlError


class Fault:
    """A planned fault. As a context manager it ends with its block."""

    def __init__(self, control: Control, number: int) -> None:
        self._control = control
        #: The number of the fault, by which the server knows it.
        self.id = number

    @property
    def hits(self) -> int:
        """The number of requests that met the fault.

        :raises LookupError: if the fault was removed.
        """
        for planned in self._control.send("GET", "faults")["items"]:
            if planned["id"] == self.id:
                return int(planned["hits"])
        raise LookupError(f"the fault {self.id} was removed; read `hits` before that")

    def remove(self) -> None:
        """Removes the fault. A fault that was removed before is no error."""
        try:
            self._control.send("DELETE", f"faults/{self.id}")
        except ControlError as refusal:
            if refusal.code != 404:
                raise

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Fault {self.id}>"


class Faults:
    """The faults of a server.

    A request meets a fault if it fits all given conditions. A fault lasts until it is removed, or until it was met
    ``times`` times.
    """

    def __init__(self, control: Control) -> None:
        self._control = control

    def answer(
        self,
        code: int,
        *,
        message: Optional[str] = None,
        retry_after: Optional[int] = None,
        commit: bool = False,
        **conditions: Any,
    ) -> Fault:
        """Plans that requests fail with an HTTP status code.

        :param code: the code, for example 409, 429 or 503.
        :param message: the message of the Status. By default the server words it.
        :param retry_after: the header ``Retry-After``, in seconds.
        :param commit: whether the request is executed before it fails.
        :param conditions: the conditions of :meth:`add`.
        """
        effect: Dict[str, object] = {"type": "answer", "code": code}
        if message is not None:
            effect["message"] = message
        if retry_after is not None:
            effect["retryAfterSeconds"] = retry_after
        if commit:
            effect["commit"] = True
        return self.add(effect, **conditions)

    def add(
        self,
        effect: Mapping[str, object],
        *,
        verb: Optional[str] = None,
        resource: Optional[str] = None,
        namespace: Optional[str] = None,
        name: Optional[str] = None,
        user: Optional[str] = None,
        user_agent: Optional[str] = None,
        probability: Optional[float] = None,
        skip: Optional[int] = None,
        times: Optional[int] = None,
        after_millis: Optional[int] = None,
        for_millis: Optional[int] = None,
    ) -> Fault:
        """Plans a fault.

        :param effect: the effect, for example ``{"type": "delay", "millis": 100}`` or ``{"type": "cut"}``.
        :param verb: get, list, watch, create, update, patch, delete or deletecollection.
        :param resource: the resource, for example ``pods`` or ``deployments.apps/status``; ``*`` is any.
        :param namespace: the namespace in the path.
        :param name: the name of the object in the path.
        :param user: the user, as the log names it.
        :param user_agent: a part of the header ``User-Agent``.
        :param probability: the share of the fitting requests, between 0 and 1.
        :param skip: the number of fitting requests that pass before.
        :param times: the number of requests that meet the fault.
        :param after_millis: the time until the fault starts, in milliseconds.
        :param for_millis: the time that the fault lasts, in milliseconds.
        :raises ControlError: if the server refuses the fault.
        """
        given = {
            "verb": verb,
            "resource": resource,
            "namespace": namespace,
            "name": name,
            "user": user,
            "userAgent": user_agent,
            "probability": probability,
            "skip": skip,
            "times": times,
            "afterMillis": after_millis,
            "forMillis": for_millis,
        }
        fault: Dict[str, object] = {key: value for key, value in given.items() if value is not None}
        fault["effect"] = dict(effect)
        return Fault(self._control, self._control.send("POST", "faults", body=fault)["id"])

    def planned(self) -> List[Dict[str, Any]]:
        """Returns all planned faults with their ids and hits, as the server describes them."""
        return list(self._control.send("GET", "faults")["items"])

    def clear(self) -> int:
        """Removes all faults, and returns their number."""
        return int(self._control.send("DELETE", "faults")["removed"])
