//! Tests of the ServiceAccount and the certificate of each namespace, and of the ServiceAccounts of Pods.

use serde_json::{Value, json};

use super::{Done, Server, config_map, pod, refused, said};
use crate::{DeleteOptions, ListQuery, ObjectTarget, RegistryOptions, WriteOptions};

mod secret_tokens;

fn furnishing() -> Server {
    Server::with(RegistryOptions {
        furnish_namespaces: true,
        ..RegistryOptions::default()
    })
}

fn listen(server: &mut Server, authority: &str) {
    let now = server.now;
    let address = "127.0.0.1:6443".parse().unwrap();
    server
        .registry
        .write_startup_objects((address, authority, None), now);
}

fn get_in(server: &Server, plural: &str, namespace: &str, name: &str) -> Done<Value> {
    let resource = server.resource(plural);
    let target = ObjectTarget::object(&resource, Some(namespace), name);
    let found = server.registry.get(target, None)?;
    Ok(found.value().clone())
}

fn names_in(server: &Server, plural: &str, namespace: &str) -> Vec<String> {
    let resource = server.resource(plural);
    let options = ListQuery::default();
    let page = server.registry.list(&resource, Some(namespace), &options);
    let page = page.unwrap();
    page.items
        .iter()
        .map(|one| one.stored.name.to_string())
        .collect()
}

/// SRV-NS-1: after every request, each namespace that is not terminating has its ServiceAccount `default`.
#[test]
fn each_namespace_has_an_account_until_it_terminates() {
    let mut server = furnishing();
    for namespace in ["default", "kube-system"] {
        assert_eq!(names_in(&server, "serviceaccounts", namespace), ["default"]);
    }
    let team = json!({"metadata": {"name": "team"}});
    server.create("namespaces", team).unwrap();
    let first = get_in(&server, "serviceaccounts", "team", "default").unwrap();
    assert_eq!(first["metadata"].get("managedFields"), None);
    let accounts = server.resource("serviceaccounts");
    let target = ObjectTarget::object(&accounts, Some("team"), "default");
    let options = DeleteOptions::default();
    let now = server.now;
    server.registry.delete(target, &options, now).unwrap();
    let second = get_in(&server, "serviceaccounts", "team", "default").unwrap();
    assert_ne!(second["metadata"]["uid"], first["metadata"]["uid"]);
    // A terminating namespace gets no ServiceAccount, however long its deletion takes.
    let maps = server.resource("configmaps");
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let target = ObjectTarget::collection(&maps, Some("team"));
    let options = WriteOptions::default();
    server.registry.create(target, held, &options, now).unwrap();
    server.delete("namespaces", "team").unwrap();
    assert!(server.get("namespaces", "team").is_ok());
    assert!(names_in(&server, "serviceaccounts", "team").is_empty());
    // Without the option `furnish_namespaces`, a namespace gets no ServiceAccount.
    let alone = Server::new();
    assert!(names_in(&alone, "serviceaccounts", "default").is_empty());
}

#[test]
fn each_namespace_has_the_certificate_once_the_server_listens() {
    let mut server = furnishing();
    let name = "kube-root-ca.crt";
    assert!(names_in(&server, "configmaps", "default").is_empty());
    listen(&mut server, "one");
    let team = json!({"metadata": {"name": "team"}});
    server.create("namespaces", team).unwrap();
    for namespace in ["default", "kube-public", "team"] {
        let found = get_in(&server, "configmaps", namespace, name).unwrap();
        assert_eq!(found["data"], json!({"ca.crt": "one"}));
        let owner = &found["metadata"]["managedFields"][0];
        assert_eq!(owner["manager"], "kube-controller-manager");
        assert_eq!(owner["fieldsV1"]["f:data"]["f:ca.crt"], json!({}));
    }
    let foreign = json!({"data": {"ca.crt": "x", "more": "y"}});
    server.merge("configmaps", name, foreign).unwrap();
    let found = server.get("configmaps", name).unwrap();
    assert_eq!(found["data"], json!({"ca.crt": "one"}));
    server.delete("configmaps", name).unwrap();
    assert!(server.get("configmaps", name).is_ok());
    listen(&mut server, "two");
    let found = get_in(&server, "configmaps", "team", name).unwrap();
    assert_eq!(found["data"], json!({"ca.crt": "two"}));
    let mut alone = Server::new();
    listen(&mut alone, "one");
    assert!(names_in(&alone, "configmaps", "default").is_empty());
}

#[test]
fn a_pod_takes_the_account_of_its_namespace_and_mounts_its_token() {
    let mut server = furnishing();
    let mut plain = pod("plain", None);
    plain["spec"]["initContainers"] = json!([{"name": "first", "image": "img:1"}]);
    let mount = "/var/run/secrets/kubernetes.io/serviceaccount";
    plain["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "own", "mountPath": mount}]);
    plain["spec"]["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
    let made = server.create("pods", plain).unwrap();
    let spec = &made["spec"];
    for field in ["serviceAccountName", "serviceAccount"] {
        assert_eq!(spec[field], "default");
    }
    let name = spec["volumes"][1]["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-"), "{name}");
    assert_eq!(name.len(), "kube-api-access-".len() + 5);
    let sources = &spec["volumes"][1]["projected"]["sources"];
    assert_eq!(
        sources[0]["serviceAccountToken"],
        json!({"path": "token", "expirationSeconds": 3607})
    );
    assert_eq!(sources[1]["configMap"]["name"], "kube-root-ca.crt");
    assert_eq!(
        spec["initContainers"][0]["volumeMounts"],
        json!([{"name": name, "readOnly": true, "mountPath": mount}])
    );
    // The container has its own mount at the directory of the token, which stays.
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([{"name": "own", "mountPath": mount}])
    );
    // In managedFields, the fields that the server has added to the Pod have no owner.
    let owned = made["metadata"]["managedFields"].to_string();
    assert!(!owned.contains("serviceAccount"), "{owned}");
    // A Pod that already has a token volume gets no second one.
    let mut copy = pod("copy", None);
    copy["spec"]["volumes"] = json!([{"name": "kube-api-access-abcde", "emptyDir": {}}]);
    let made = server.create("pods", copy).unwrap();
    assert_eq!(made["spec"]["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(
        made["spec"]["containers"][0]["volumeMounts"][0]["name"],
        "kube-api-access-abcde"
    );
}

#[test]
fn a_pod_gets_its_accounts_settings_unless_it_has_its_own() {
    let mut server = furnishing();
    let account = json!({"metadata": {"name": "bot"}, "automountServiceAccountToken": false,
        "imagePullSecrets": [{"name": "registry"}]});
    server.create("serviceaccounts", account).unwrap();
    let of_bot = |name: &str| {
        let mut pod = pod(name, None);
        pod["spec"]["serviceAccountName"] = json!("bot");
        pod
    };
    let made = server.create("pods", of_bot("a")).unwrap();
    assert_eq!(made["spec"].get("volumes"), None);
    assert_eq!(made["spec"]["containers"][0].get("volumeMounts"), None);
    assert_eq!(
        made["spec"]["imagePullSecrets"],
        json!([{"name": "registry"}])
    );
    let mut wants = of_bot("b");
    wants["spec"]["automountServiceAccountToken"] = json!(true);
    wants["spec"]["imagePullSecrets"] = json!([{"name": "own"}]);
    let made = server.create("pods", wants).unwrap();
    assert_eq!(made["spec"]["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(made["spec"]["imagePullSecrets"], json!([{"name": "own"}]));
    let mut lost = pod("c", None);
    lost["spec"]["serviceAccountName"] = json!("missing");
    assert_eq!(
        refused(server.create("pods", lost.clone())),
        (
            403,
            "pods \"c\" is forbidden: error looking up service account default/missing: serviceaccount \"missing\" not found".to_owned()
        )
    );
    // Without the option `furnish_namespaces`, a Pod may name any ServiceAccount and gets no token.
    let mut alone = Server::new();
    let made = alone.create("pods", lost).unwrap();
    assert_eq!(made["spec"].get("volumes"), None);
}

#[test]
fn a_mirror_pod_gets_no_account() {
    let mut server = furnishing();
    let mut mirror = pod("m", Some("node-1"));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let made = server.create("pods", mirror.clone()).unwrap();
    assert_eq!(made["spec"].get("serviceAccountName"), None);
    mirror["metadata"]["name"] = json!("n");
    mirror["spec"]["serviceAccountName"] = json!("default");
    assert_eq!(
        refused(server.create("pods", mirror)),
        (
            403,
            "pods \"n\" is forbidden: a mirror pod may not reference service accounts".to_owned()
        )
    );
}

/// A version of a CRD has an APIService from the time the version is served until it is no longer served.
#[test]
fn versions_of_custom_resources_are_registered() {
    let mut server = Server::new();
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = |name: &str, served: bool| json!({"name": name, "served": served, "storage": name == "v1", "schema": schema});
    let definition = |plural: &str, versions: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions,
                "names": {"plural": plural, "kind": plural.to_uppercase()}}})
    };
    let install = |server: &mut Server, definition| {
        let now = server.now;
        server.registry.install_crd(definition, now).unwrap();
    };
    let custom = |server: &Server| {
        let mut names = server.names("apiservices", &ListQuery::default());
        names.retain(|name| name.ends_with("example.com"));
        names
    };
    install(&mut server, definition("as", json!([version("v1", true)])));
    assert!(custom(&server).is_empty());
    listen(&mut server, "one");
    assert_eq!(custom(&server), ["v1.example.com"]);
    let mut watch = server.watch("apiservices", &ListQuery::default()).unwrap();
    server.poll(&mut watch);
    let both = json!([version("v1", true), version("v2", true)]);
    install(&mut server, definition("bs", both));
    assert_eq!(custom(&server), ["v1.example.com", "v2.example.com"]);
    let found = server.get("apiservices", "v2.example.com").unwrap();
    assert_eq!(found["spec"]["groupPriorityMinimum"], 1000);
    assert_eq!(found["spec"]["versionPriority"], 100);
    assert_eq!(found["status"]["conditions"][0]["reason"], "Local");
    assert_eq!(
        found["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"],
        "true"
    );
    let one = json!([version("v1", true), version("v2", false)]);
    install(&mut server, definition("bs", one));
    assert_eq!(custom(&server), ["v1.example.com"]);
    server
        .delete("customresourcedefinitions", "as.example.com")
        .unwrap();
    assert_eq!(custom(&server), ["v1.example.com"]);
    server
        .delete("customresourcedefinitions", "bs.example.com")
        .unwrap();
    assert!(custom(&server).is_empty());
    let messages: Vec<String> = server
        .registry
        .poll(&mut watch, 100)
        .iter()
        .map(said)
        .collect();
    assert_eq!(
        messages,
        [
            "ADDED v2.example.com", "MODIFIED v2.example.com", "DELETED v2.example.com",
            "DELETED v1.example.com"
        ]
    );
    // The APIServices of built-in groups are not deleted with those of CRDs.
    assert!(server.get("apiservices", "v1.apps").is_ok());
}
