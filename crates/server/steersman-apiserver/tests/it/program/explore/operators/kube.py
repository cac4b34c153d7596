"""A client of the Kubernetes API and the loop of a controller, with the standard library alone."""

import base64
import http.client
import json
import os
import queue
import re
import ssl
import threading
import time
from urllib.parse import urlsplit

GROUP = "/apis/example.com/v1/namespaces/default"
CORE = "/api/v1/namespaces/default"


class Failed(Exception):
    """An answer that is no success."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


def _kubeconfig():
    with open(os.environ["KUBECONFIG"], encoding="utf-8") as file:
        text = file.read()
    field = lambda name: re.search(name + r": (\S+)", text).group(1)
    authority = base64.b64decode(field("certificate-authority-data")).decode()
    return urlsplit(field("server")), ssl.create_default_context(cadata=authority), field("token")


SERVER, TLS, TOKEN = _kubeconfig()
_local = threading.local()


def _send(method, path, body=None, fresh=False):
    connection = None if fresh else getattr(_local, "connection", None)
    if connection is None:
        connection = http.client.HTTPSConnection(SERVER.hostname, SERVER.port, context=TLS)
        if not fresh:
            _local.connection = connection
    headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()
    except (OSError, http.client.HTTPException):
        _local.connection = None
        raise


def call(method, path, body=None):
    """Returns the object of the answer, or raises Failed."""
    try:
        answer = _send(method, path, body)
        value = json.loads(answer.read() or b"{}")
    except (OSError, http.client.HTTPException) as error:
        _local.connection = None
        raise Failed(0, error) from error
    if answer.status >= 300:
        raise Failed(answer.status, value.get("message"))
    return value


def find(path):
    """Returns an object, or None if it does not exist."""
    try:
        return call("GET", path)
    except Failed as failed:
        if failed.code == 404:
            return None
        raise


def owner(of):
    meta = of["metadata"]
    return [{"apiVersion": of["apiVersion"], "kind": of["kind"], "name": meta["name"], "uid": meta["uid"]}]


def _follow(path, report, first):
    """Lists and watches, and reports each object. `first` is the query of the list."""
    version = None
    while True:
        try:
            if version is None:
                listed = call("GET", path + first)
                version = listed["metadata"]["resourceVersion"]
                for item in listed["items"]:
                    report("ADDED", item)
            answer = _send("GET", f"{path}?watch=true&resourceVersion={version}", fresh=True)
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    version = None
                    break
                version = event["object"]["metadata"]["resourceVersion"]
                report(event["type"], event["object"])
        except (Failed, OSError, ValueError, KeyError, http.client.HTTPException):
            version = None
            time.sleep(0.05)


def watch(path, report, stale=False):
    """Follows a collection in a thread. With `stale` the first list may be old, as those of informers are."""
    first = "?resourceVersion=0" if stale else ""
    threading.Thread(target=_follow, args=(path, report, first), daemon=True).start()


def run(primary, reconcile, owned=(), stale=False):
    """Calls `reconcile` with each name, when the object or one with the label `of` changes, until it succeeds."""
    names = queue.Queue()
    watch(primary, lambda _, item: names.put(item["metadata"]["name"]), stale)

    def of_child(_, item):
        name = item["metadata"].get("labels", {}).get("of")
        if name:
            names.put(name)

    for path in owned:
        watch(path, of_child, stale)
    while True:
        name = names.get()
        try:
            reconcile(name)
        except Failed as failed:
            print(f"{name}: {failed}", flush=True)
            threading.Timer(0.1, names.put, (name,)).start()
