"""Gives each Site a Service. The bug: a generated name, so that each retry makes another Service."""

import sys
from kube import CORE, GROUP, call, find, owner, run

BUG = sys.argv[1] == "bug"


def reconcile(name):
    site = find(f"{GROUP}/sites/{name}")
    if site is None:
        return
    meta = {"labels": {"of": name}, "ownerReferences": owner(site)}
    spec = {"ports": [{"port": 80}], "selector": {"site": name}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    if BUG:
        if "service" in site.get("status", {}):
            return
        meta["generateName"] = f"{name}-"
        made = call("POST", f"{CORE}/services", service)
    else:
        meta["name"] = name
        made = find(f"{CORE}/services/{name}") or call("POST", f"{CORE}/services", service)
    if site.get("status", {}).get("service") != made["metadata"]["name"]:
        site["status"] = {"service": made["metadata"]["name"]}
        call("PUT", f"{GROUP}/sites/{name}/status", site)


run(f"{GROUP}/sites", reconcile, [f"{CORE}/services"])
