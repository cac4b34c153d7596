"""Publishes the page of each Site in a ConfigMap, with the package `kubernetes`. The bug: it looks at each Site once."""

import sys
import time

from kubernetes import client, config, watch

BUG = sys.argv[1] == "bug"
WHERE = ("example.com", "v1", "default", "sites")

config.load_kube_config()
sites, core = client.CustomObjectsApi(), client.CoreV1Api()


def publish(site):
    name, data = site["metadata"]["name"], {"page": site["spec"]["page"]}
    owner = client.V1OwnerReference(
        api_version=site["apiVersion"], kind=site["kind"], name=name, uid=site["metadata"]["uid"]
    )
    meta = client.V1ObjectMeta(name=name, owner_references=[owner])
    child = client.V1ConfigMap(metadata=meta, data=data)
    try:
        core.create_namespaced_config_map("default", child)
    except client.ApiException as error:
        if error.status != 409:
            raise
        core.replace_namespaced_config_map(name, "default", child)
    sites.patch_namespaced_custom_object_status(*WHERE, name, {"status": data})


def publish_if_needed(site):
    while site.get("status", {}).get("page") != site["spec"]["page"]:
        try:
            return publish(site)
        except client.ApiException as error:
            print(f"{site['metadata']['name']}: {error.status}", flush=True)
        if BUG:
            return
        time.sleep(0.1)
        try:
            site = sites.get_namespaced_custom_object(*WHERE, site["metadata"]["name"])
        except client.ApiException as error:
            if error.status == 404:
                return


while True:
    try:
        # Without a resourceVersion the watch begins with all objects.
        for event in watch.Watch().stream(sites.list_namespaced_custom_object, *WHERE):
            if event["type"] != "DELETED":
                publish_if_needed(event["object"])
    except client.ApiException as error:
        print(f"the watch ended: {error.status}", flush=True)
        time.sleep(0.1)
