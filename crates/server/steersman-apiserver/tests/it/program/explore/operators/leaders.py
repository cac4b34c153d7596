"""Elects a leader with a Lease, and the leader gives each Site a ConfigMap. The bug: two leaders make two."""

import datetime
import os
import sys
import threading
import time
from kube import CORE, GROUP, Failed, call, find, owner, run

BUG = sys.argv[1] == "bug"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SECONDS = 1
NAME = f"process-{os.getpid()}"


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def try_to_lead():
    """Takes or renews the Lease. Returns whether this process leads."""
    spec = {
        "holderIdentity": NAME,
        "leaseDurationSeconds": SECONDS,
        "renewTime": now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    lease = find(f"{LEASE}/operator")
    if lease is None:
        meta = {"name": "operator"}
        call("POST", LEASE, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec})
        return True
    held = lease["spec"]
    renewed = datetime.datetime.strptime(held["renewTime"], "%Y-%m-%dT%H:%M:%S.%f%z")
    is_over = (now() - renewed).total_seconds() > SECONDS
    if held["holderIdentity"] != NAME and not is_over:
        return False
    lease["spec"] = spec
    call("PUT", f"{LEASE}/operator", lease)
    return True


def leads():
    try:
        return try_to_lead()
    except Failed:
        return False


def stay_leader():
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if leads():
            until = time.monotonic() + SECONDS
        time.sleep(0.2)
    print("lost the lease", flush=True)
    os._exit(1)


def reconcile(name):
    site = find(f"{GROUP}/sites/{name}")
    if site is None:
        return
    meta = {"labels": {"of": name}, "ownerReferences": owner(site)}
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"page": site["spec"]["page"]}}
    if BUG:
        if call("GET", f"{CORE}/configmaps?labelSelector=of%3D{name}")["items"]:
            return
        meta["generateName"] = f"{name}-"
    else:
        if find(f"{CORE}/configmaps/{name}"):
            return
        meta["name"] = name
    call("POST", f"{CORE}/configmaps", child)


while not leads():
    time.sleep(0.1)
threading.Thread(target=stay_leader, daemon=True).start()
run(f"{GROUP}/sites", reconcile, [f"{CORE}/configmaps"])
