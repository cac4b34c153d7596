"""Keeps a ConfigMap for each Site with kopf, in the way of the examples of its repository.

Bug: a handler that runs again after a crash does not expect the ConfigMap that its first run made.
"""

import sys

import kopf
import kubernetes

MENDED = sys.argv[1] == "mended"


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False


@kopf.on.create("example.com", "v1", "sites", backoff=1)
@kopf.on.update("example.com", "v1", "sites", backoff=1)
def publish(spec, name, namespace, **_):
    page = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"page": spec.get("page", "")},
    }
    kopf.adopt(page)
    api = kubernetes.client.CoreV1Api()
    try:
        api.create_namespaced_config_map(namespace, page)
    except kubernetes.client.ApiException as error:
        if error.status != 409 or not MENDED:
            raise
        api.replace_namespaced_config_map(name, namespace, page)


kubernetes.config.load_kube_config()
kopf.run(standalone=True, namespace="default")
