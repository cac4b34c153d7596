"""Publishes the page of each Site in a ConfigMap. The bug: the status says so before it is so."""

import sys
from kube import CORE, GROUP, call, find, owner, run

BUG = sys.argv[1] == "bug"


def publish(site):
    name, page = site["metadata"]["name"], site["spec"]["page"]
    path = f"{CORE}/configmaps"
    old = find(f"{path}/{name}")
    if old is None:
        meta = {"name": name, "labels": {"of": name}, "ownerReferences": owner(site)}
        call("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"page": page}})
    elif old.get("data") != {"page": page} or old["metadata"].get("ownerReferences") != owner(site):
        old["data"] = {"page": page}
        old["metadata"]["ownerReferences"] = owner(site)
        call("PUT", f"{path}/{name}", old)


def reconcile(name):
    site = find(f"{GROUP}/sites/{name}")
    if site is None or site["metadata"].get("deletionTimestamp"):
        return
    page = site["spec"]["page"]
    is_published = site.get("status", {}).get("page") == page
    if BUG and is_published:
        return
    if not BUG:
        publish(site)
    if not is_published:
        site["status"] = {"page": page}
        call("PUT", f"{GROUP}/sites/{name}/status", site)
    if BUG:
        publish(site)


run(f"{GROUP}/sites", reconcile, [] if BUG else [f"{CORE}/configmaps"])
