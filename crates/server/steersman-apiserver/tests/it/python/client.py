"""Drives the embedded API server with the kubernetes client: `client.py KUBECONFIG SCENARIO`.

Each scenario asserts what the client sees; the test that starts it asserts what the server has.
"""

import sys

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

APPLY = "application/apply-patch+yaml"


def config_map(name, labels=None, **data):
    return client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name, labels=labels), data=data or None
    )


def lists(core):
    for number in range(25):
        labels = {"half": "lower" if number < 12 else "upper"}
        core.create_namespaced_config_map("default", config_map(f"c{number:02}", labels, n=str(number)))
    names, token, pages = [], None, 0
    while True:
        page = core.list_namespaced_config_map("default", limit=10, _continue=token)
        names += [one.metadata.name for one in page.items]
        token, pages = page.metadata._continue, pages + 1
        if not token:
            break
        assert page.metadata.remaining_item_count == 25 - len(names), page.metadata
    assert pages == 3 and names == [f"c{number:02}" for number in range(25)], names
    upper = core.list_config_map_for_all_namespaces(label_selector="half=upper")
    assert len(upper.items) == 13 and upper.items[0].data == {"n": "12"}, upper
    one = core.list_namespaced_config_map("default", field_selector="metadata.name=c07")
    assert [item.metadata.name for item in one.items] == ["c07"], one
    try:
        core.read_namespaced_config_map("absent", "default")
        raise AssertionError("an absent object was read")
    except ApiException as refusal:
        assert refusal.status == 404 and '"reason":"NotFound"' in refusal.body, refusal


def watches(core):
    """Follows ConfigMaps from a list on. The server cuts the first watch after its second event, and has compacted its past
    when the third one resumes: the client must neither miss nor repeat an event, except by listing again."""
    start = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map("default", config_map("a", v="1"))
    core.patch_namespaced_config_map("a", "default", {"data": {"v": "2"}})
    seen, version = [], start
    for event in watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=start, timeout_seconds=2
    ):
        held = event["object"]
        version = held.metadata.resource_version
        seen.append((event["type"], held.metadata.name, held.data["v"]))
    assert seen == [("ADDED", "a", "1"), ("MODIFIED", "a", "2")], seen
    # No watch is open now; the next one resumes where the first one ended.
    core.create_namespaced_config_map("default", config_map("b", v="1"))
    core.delete_namespaced_config_map("a", "default")
    resumed = []
    for event in watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=2
    ):
        resumed.append((event["type"], event["object"].metadata.name))
    assert resumed == [("ADDED", "b"), ("DELETED", "a")], resumed
    print("resumed", flush=True)
    # The server compacts its past now, and reports that on standard input.
    assert sys.stdin.readline().strip() == "compacted"
    try:
        for event in watch.Watch().stream(
            core.list_namespaced_config_map, "default", resource_version=start, timeout_seconds=2
        ):
            raise AssertionError(f"an event from a forgotten past: {event}")
        raise AssertionError("a forgotten past was watched")
    except ApiException as refusal:
        assert refusal.status == 410, refusal


def patches(core, apps):
    core.create_namespaced_config_map("default", config_map("c", kept="1", gone="1"))
    changed = core.patch_namespaced_config_map("c", "default", {"data": {"gone": None, "merged": "1"}})
    assert changed.data == {"kept": "1", "merged": "1"}, changed.data
    operations = [
        {"op": "test", "path": "/data/kept", "value": "1"},
        {"op": "replace", "path": "/data/kept", "value": "2"},
    ]
    changed = core.patch_namespaced_config_map("c", "default", operations)
    assert changed.data["kept"] == "2", changed.data
    try:
        core.patch_namespaced_config_map("c", "default", operations)
        raise AssertionError("a failed test was overlooked")
    except ApiException as refusal:
        assert refusal.status == 422, refusal
    labels = {"app": "web"}
    container = client.V1Container(name="web", image="nginx:1", env=[client.V1EnvVar(name="A", value="1")])
    apps.create_namespaced_deployment(
        "default",
        client.V1Deployment(
            metadata=client.V1ObjectMeta(name="web"),
            spec=client.V1DeploymentSpec(
                selector=client.V1LabelSelector(match_labels=labels),
                template=client.V1PodTemplateSpec(
                    metadata=client.V1ObjectMeta(labels=labels),
                    spec=client.V1PodSpec(containers=[container]),
                ),
            ),
        ),
    )
    second = {"name": "side", "image": "envoy:1"}
    body = {"spec": {"template": {"spec": {"containers": [second]}}}}
    changed = apps.patch_namespaced_deployment("web", "default", body, _content_type="application/strategic-merge-patch+json")
    assert [one.name for one in changed.spec.template.spec.containers] == ["side", "web"], changed.spec
    scale = apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
    assert scale.spec.replicas == 3, scale
    stale = core.read_namespaced_config_map("c", "default")
    core.patch_namespaced_config_map("c", "default", {"data": {"later": "1"}})
    try:
        core.replace_namespaced_config_map("c", "default", stale)
        raise AssertionError("a stale object replaced a newer one")
    except ApiException as refusal:
        assert refusal.status == 409, refusal


def applies(core, api):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "1"}}
    made = core.patch_namespaced_config_map("c", "default", body, field_manager="one", _content_type=APPLY)
    assert made.data == {"a": "1", "b": "1"}, made.data
    body["data"] = {"a": "2"}
    try:
        core.patch_namespaced_config_map("c", "default", body, field_manager="two", _content_type=APPLY)
        raise AssertionError("a conflict was overlooked")
    except ApiException as refusal:
        assert refusal.status == 409 and '.data.a' in refusal.body, refusal.body
    core.patch_namespaced_config_map("c", "default", body, field_manager="two", force=True, _content_type=APPLY)
    # Fields that the first manager no longer applies are removed, unless the second one has taken them over.
    del body["data"]
    left = core.patch_namespaced_config_map("c", "default", body, field_manager="one", _content_type=APPLY)
    assert left.data == {"a": "2"}, left.data

    sites = dynamic.DynamicClient(api).resources.get(api_version="example.com/v1", kind="Website")
    site = {
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": "blog"},
        "spec": {"image": "nginx:1", "replicas": 2},
    }
    made = sites.server_side_apply(body=site, namespace="default", field_manager="one")
    assert made.spec.replicas == 2 and made.metadata.generation == 1, made
    site["spec"] = {"image": "nginx:1", "replicas": 3}
    try:
        sites.server_side_apply(body=site, namespace="default", field_manager="two")
        raise AssertionError("a conflict was overlooked")
    except ConflictError:
        pass
    made = sites.server_side_apply(body=site, namespace="default", field_manager="two", force_conflicts=True)
    assert made.spec.replicas == 3 and made.metadata.generation == 2, made
    try:
        sites.get(name="absent", namespace="default")
        raise AssertionError("an absent object was read")
    except NotFoundError:
        pass


def manifests(api):
    documents = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "team"}},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "once", "namespace": "team"},
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
                }
            },
        },
    ]
    utils.create_from_yaml(api, yaml_objects=documents)
    job = client.BatchV1Api(api).read_namespaced_job("once", "team")
    assert job.spec.backoff_limit == 6 and job.metadata.uid, job


def main():
    kubeconfig, scenario = sys.argv[1:]
    config.load_kube_config(kubeconfig)
    api = client.ApiClient()
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    {
        "lists": lambda: lists(core),
        "watches": lambda: watches(core),
        "patches": lambda: patches(core, apps),
        "applies": lambda: applies(core, api),
        "manifests": lambda: manifests(api),
    }[scenario]()
    print("done", flush=True)


main()
