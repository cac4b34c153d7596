"""Requests to the endpoints below ``/steersman/``, which control a server."""

from __future__ import annotations

import base64
import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Mapping, Optional

#: The time after which a request fails, in seconds.
TIMEOUT = 30


class ControlError(Exception):
    """A refused request to an endpoint below ``/steersman/``. The message is the server's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (HTTP {code})")
        #: The code of the response.
        self.code = code


class Control:
    """Sends requests with the credentials of a kubeconfig that the program wrote."""

    def __init__(self, kubeconfig: Path) -> None:
        text = kubeconfig.read_text()
        self.url = _field(text, "server")
        self._token = _field(text, "token")
        authority = base64.b64decode(_field(text, "certificate-authority-data")).decode()
        self._tls = ssl.create_default_context(cadata=authority)

    def send(
        self,
        method: str,
        path: str,
        parameters: Optional[Mapping[str, object]] = None,
        body: object = None,
    ) -> Any:
        """Returns the decoded response.

        :raises ControlError: if the server refuses the request.
        :raises OSError: if the server does not answer.
        """
        url = f"{self.url}/steersman/{path}"
        if parameters:
            url += "?" + urllib.parse.urlencode(parameters)
        request = urllib.request.Request(url, method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        # A proxy of the environment does not lead to this machine.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._tls)
        )
        try:
            with opener.open(request, timeout=TIMEOUT) as response:
                return json.load(response)
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise ControlError(refusal.code, _message(refusal.read())) from None


def _field(kubeconfig: str, name: str) -> str:
    """Returns a value of a kubeconfig that the program wrote: each is on a line of its own, without quotes."""
    found = re.search(rf"^\s*{re.escape(name)}: (\S+)$", kubeconfig, re.MULTILINE)
    if found is None:
        raise ValueError(f"the kubeconfig has no field {name}: the program did not write it")
    return found.group(1)


def _message(body: bytes) -> str:
    """Returns the message of a Status, or the whole text of another body."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")
