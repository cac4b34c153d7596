"""The server and its fixtures, with the Python client."""

import os
import subprocess
import sys

import pytest
from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from steersman_apiserver import ControlError, Server, StartError, program_path

WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def core(server):
    return client.CoreV1Api(config.new_client_from_config(str(server.kubeconfig)))


def config_map(name, **data):
    return {"metadata": {"name": name}, "data": data}


def names(api):
    return [one.metadata.name for one in api.list_namespaced_config_map("default").items]


def test_a_watch_sees_what_the_client_creates(steersman_cluster):
    api = core(steersman_cluster)
    start = api.list_namespaced_config_map("default").metadata.resource_version
    api.create_namespaced_config_map("default", config_map("a", key="value"))
    watching = watch.Watch()
    for event in watching.stream(
        api.list_namespaced_config_map, "default", resource_version=start, timeout_seconds=60
    ):
        assert event["type"] == "ADDED" and event["object"].data == {"key": "value"}
        watching.stop()
    [created] = steersman_cluster.requests(verb="create", resource="configmaps")
    assert (created.namespace, created.name, created.status) == ("default", "a", 201)
    [watched] = steersman_cluster.requests(verb="watch", user_agent="OpenAPI-Generator")
    assert watched.parameters["resourceVersion"] == start and watched.sequence > created.sequence


def test_a_fault_fails_one_request_and_is_in_the_log(steersman_cluster):
    api = core(steersman_cluster)
    fault = steersman_cluster.faults.answer(
        429, verb="create", resource="configmaps", times=1, message="too busy", retry_after=7
    )
    with pytest.raises(ApiException) as refused:
        api.create_namespaced_config_map("default", config_map("a"))
    assert refused.value.status == 429 and "too busy" in refused.value.body
    assert refused.value.headers["Retry-After"] == "7"
    assert fault.hits == 1
    api.create_namespaced_config_map("default", config_map("a"))
    assert [one.status for one in steersman_cluster.requests(verb="create")] == [429, 201]
    steersman_cluster.clear_requests()
    assert steersman_cluster.requests() == []


def test_a_fault_ends_with_its_block(steersman_cluster):
    api = core(steersman_cluster)
    with steersman_cluster.faults.add(
        {"type": "answer", "code": 403}, verb="list", resource="configmaps"
    ) as fault:
        assert [one["id"] for one in steersman_cluster.faults.planned()] == [fault.id]
        with pytest.raises(ApiException):
            names(api)
    assert steersman_cluster.faults.planned() == []
    assert "a" not in names(api)
    with pytest.raises(LookupError):
        fault.hits
    fault.remove()


def test_a_refused_fault_has_the_message_of_the_server(steersman_cluster):
    with pytest.raises(ControlError, match="unknown variant .*nonsense.* \\(HTTP 400\\)"):
        steersman_cluster.faults.add({"type": "nonsense"})
    with pytest.raises(ControlError, match="do is .*stop"):
        steersman_cluster.watches("stop")


def test_two_clusters_share_nothing(steersman_servers):
    first, second = steersman_servers(), steersman_servers()
    core(first).create_namespaced_config_map("default", config_map("a"))
    assert "a" in names(core(first)) and "a" not in names(core(second))
    assert first.url != second.url and first.kubeconfig != second.kubeconfig
    first.faults.answer(503)
    assert second.faults.planned() == [] and first.faults.clear() == 1
    assert len(first.requests(verb="create")) == 1 and second.requests(verb="create") == []
    first.stop()
    assert "a" not in names(core(second))


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_a_cluster_of_its_own(steersman_cluster, turn):
    api = core(steersman_cluster)
    assert "left-behind" not in names(api)
    api.create_namespaced_config_map("default", config_map("left-behind"))


@pytest.mark.steersman(rbac=True)
def test_the_marker_passes_arguments(steersman_cluster):
    anonymous = config.new_client_from_config(str(steersman_cluster.kubeconfig))
    anonymous.configuration.api_key.clear()
    with pytest.raises(ApiException) as refused:
        client.CoreV1Api(anonymous).list_namespace()
    assert refused.value.status == 403 and "system:anonymous" in refused.value.body
    assert core(steersman_cluster).list_namespace().items


def test_definitions_and_objects_are_there_at_the_start(tmp_path):
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "widgets.yaml").write_text(WIDGETS)
    (tmp_path / "a.yaml").write_text("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n")
    with Server(crds=[tmp_path / "crds"], manifests=[tmp_path / "a.yaml"]) as server:
        widgets = client.CustomObjectsApi(config.new_client_from_config(str(server.kubeconfig)))
        found = widgets.get_namespaced_custom_object("example.com", "v1", "default", "widgets", "a")
        assert found["metadata"]["name"] == "a"


def test_a_restart_cuts_watches_and_keeps_objects(steersman_cluster):
    api = core(steersman_cluster)
    api.create_namespaced_config_map("default", config_map("a"))
    steersman_cluster.restart(history="lost")
    assert "a" in names(api)
    steersman_cluster.compact()
    assert steersman_cluster.watches("cut") == 0


def test_objects_are_saved_in_the_data_directory(tmp_path):
    with Server(data_dir=tmp_path) as server:
        core(server).create_namespaced_config_map("default", config_map("a"))
    with Server(data_dir=tmp_path) as server:
        assert "a" in names(core(server))


def test_a_server_that_cannot_start_says_why(tmp_path):
    with pytest.raises(StartError, match="status 2: .*--no-such-flag"):
        Server(arguments=["--no-such-flag"]).start()
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    with pytest.raises(StartError, match="did not listen within 0.1 s"):
        Server(program=silent, start_timeout=0.1).start()
    with pytest.raises(TypeError, match="list of paths"):
        Server(crds="crds")


def test_a_stopped_server_leaves_nothing_behind():
    server = Server().start()
    folder, pid = server.kubeconfig.parent, server.pid
    with pytest.raises(RuntimeError, match="runs already"):
        server.start()
    server.stop()
    server.stop()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(RuntimeError, match="does not run"):
        server.url
    # It can be started again.
    with server:
        assert core(server).list_namespace().items


def test_a_server_ends_with_python():
    script = "from steersman_apiserver import Server; server = Server().start(); print(server.pid, server.kubeconfig)"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    pid, kubeconfig = printed.split(maxsplit=1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    assert not os.path.exists(os.path.dirname(kubeconfig))


def test_the_command_is_the_program():
    for command in [[sys.executable, "-m", "steersman_apiserver"], [str(program_path())]]:
        printed = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
        assert "--insecure-let-others-in" in printed.stdout


def test_a_wrong_path_of_the_program_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("STEERSMAN_APISERVER", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="absent; correct STEERSMAN_APISERVER"):
        program_path()
    (tmp_path / "absent").write_text("")
    with pytest.raises(PermissionError, match="chmod"):
        program_path()
