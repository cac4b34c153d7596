"""Gives each Site a Secret with a random password. The bug: a crash before the status makes a new password."""

import base64
import secrets
import sys
from kube import CORE, GROUP, call, find, owner, run

BUG = sys.argv[1] == "bug"


def reconcile(name):
    site = find(f"{GROUP}/sites/{name}")
    if site is None:
        return
    old = find(f"{CORE}/secrets/{name}")
    is_ready = site.get("status", {}).get("page") == "secret"
    if old is None or (BUG and not is_ready):
        password = base64.b64encode(secrets.token_hex(8).encode()).decode()
        meta = {"name": name, "labels": {"of": name}, "ownerReferences": owner(site)}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"password": password}}
        if old is None:
            call("POST", f"{CORE}/secrets", secret)
        else:
            call("PUT", f"{CORE}/secrets/{name}", secret)
    if not is_ready:
        site["status"] = {"page": "secret"}
        call("PUT", f"{GROUP}/sites/{name}/status", site)


run(f"{GROUP}/sites", reconcile, [f"{CORE}/secrets"])
