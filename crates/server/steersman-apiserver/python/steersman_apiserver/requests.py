"""The log of requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional


@dataclass(frozen=True)
class Request:
    """A request that the server received."""

    #: The number of the request, in the order of arrival.
    sequence: int
    #: The time of arrival, as in RFC 3339.
    at: str
    method: str
    path: str
    #: The query parameters; of a repeated one the last value.
    parameters: Dict[str, str]
    #: The verb of Kubernetes, for example ``list``; ``None`` for documents such as discovery.
    verb: Optional[str]
    group: Optional[str]
    version: Optional[str]
    resource: Optional[str]
    subresource: Optional[str]
    namespace: Optional[str]
    name: Optional[str]
    user: str
    groups: List[str]
    user_agent: str
    #: The status code of the response; ``None`` until there is one.
    status: Optional[int]
    #: The request as the server describes it, with all fields.
    raw: Mapping[str, Any]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Request:
        """Reads a request as the server describes it."""
        return cls(
            sequence=record["sequence"],
            at=record["at"],
            method=record["method"],
            path=record["path"],
            parameters={pair["name"]: pair["value"] for pair in record["parameters"]},
            verb=record["verb"],
            group=record["group"],
            version=record["version"],
            resource=record["resource"],
            subresource=record["subresource"],
            namespace=record["namespace"],
            name=record["name"],
            user=record["user"],
            groups=list(record["groups"]),
            user_agent=record["userAgent"],
            status=record["status"],
            raw=record,
        )
