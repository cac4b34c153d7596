"""Keeps as many ConfigMaps per Site as its size. The bug: it removes as many as an old list has too many."""

import sys
from kube import CORE, GROUP, Failed, call, find, owner, run

BUG = sys.argv[1] == "bug"
MEMBERS = f"{CORE}/configmaps"


def members(name, query=""):
    listed = call("GET", f"{MEMBERS}?labelSelector=of%3D{name}{query}")
    return sorted(item["metadata"]["name"] for item in listed["items"])


def remove(member):
    try:
        call("DELETE", f"{MEMBERS}/{member}")
    except Failed as failed:
        if failed.code != 404:
            raise


def reconcile(name):
    site = find(f"{GROUP}/sites/{name}")
    if site is None:
        return
    size = site["spec"]["size"]
    wanted = [f"{name}-{number}" for number in range(size)]
    if BUG:
        for _ in range(len(members(name, "&resourceVersion=0")) - size):
            remove(members(name)[-1])
    else:
        for member in members(name):
            if member not in wanted:
                remove(member)
    for member in wanted:
        if find(f"{MEMBERS}/{member}") is None:
            meta = {"name": member, "labels": {"of": name}, "ownerReferences": owner(site)}
            # A member that joins again has lost its data.
            data = {"joined": str(site["metadata"]["generation"])}
            call("POST", MEMBERS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})


run(f"{GROUP}/sites", reconcile, [MEMBERS], stale=True)
