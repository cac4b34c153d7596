//! Tests of the objects that a server writes when it starts.

use serde_json::{Value, json};

use super::{Server, refused};
use crate::RegistryOptions;

#[test]
fn a_server_creates_its_own_service() {
    let mut server = Server::new();
    let now = server.now;
    server
        .registry
        .write_startup_objects(("127.0.0.1:6443".parse().unwrap(), "PEM", None), now);
    let service = server.get("services", "kubernetes").unwrap();
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
    assert_eq!(
        server
            .get("priorityclasses", "system-node-critical")
            .unwrap()["value"],
        2_000_001_000
    );
    // If the server starts again with another address, only the endpoints of the Service `kubernetes` change.
    server
        .registry
        .write_startup_objects(("127.0.0.1:7443".parse().unwrap(), "other PEM", None), now);
    let again = server.get("services", "kubernetes").unwrap();
    assert_eq!(
        again["metadata"]["resourceVersion"],
        service["metadata"]["resourceVersion"]
    );
    let endpoints = server.get("endpoints", "kubernetes").unwrap();
    assert_eq!(
        endpoints["subsets"],
        json!([{"addresses": [{"ip": "127.0.0.1"}],
            "ports": [{"name": "https", "port": 7443, "protocol": "TCP"}]}])
    );
    let slice = server.get("endpointslices", "kubernetes").unwrap();
    assert_eq!(slice["ports"][0]["port"], 7443);
    assert_eq!(
        server
            .registry
            .service_address("default", "kubernetes", 443)
            .unwrap()
            .1,
        7443
    );
    // A new Service does not get the address of the Service `kubernetes`, 10.96.0.1.
    let other = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let other = server.create("services", other).unwrap();
    assert_ne!(other["spec"]["clusterIP"], "10.96.0.1");
}

#[test]
fn a_server_creates_api_services_and_flow_control_configurations() {
    let mut server = Server::new();
    let write = |server: &mut Server| {
        let now = server.now;
        server
            .registry
            .write_startup_objects(("127.0.0.1:6443".parse().unwrap(), "PEM", None), now);
    };
    write(&mut server);
    let options = crate::ListQuery::default();
    assert_eq!(
        server.names("prioritylevelconfigurations", &options).len(),
        8
    );
    let schemas = server.names("flowschemas", &options);
    assert_eq!(schemas.len(), 13);
    for name in schemas {
        let schema = server.get("flowschemas", &name).unwrap();
        let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str();
        let level = level.unwrap();
        assert!(
            server.get("prioritylevelconfigurations", level).is_ok(),
            "{name}"
        );
        assert_eq!(
            schema["status"]["conditions"][0]["reason"], "Found",
            "{name}"
        );
    }
    // There is an APIService for each served group and version, except those of APIServices themselves.
    let mut served: Vec<String> = server
        .registry
        .resources()
        .iter()
        .filter(|resource| resource.group != "apiregistration.k8s.io")
        .map(|resource| format!("{}.{}", resource.version, resource.group))
        .collect();
    served.sort_unstable();
    served.dedup();
    assert_eq!(server.names("apiservices", &options), served);
    let apps = server.get("apiservices", "v1.apps").unwrap();
    assert_eq!(apps["spec"]["groupPriorityMinimum"], 17800);
    assert_eq!(apps["status"]["conditions"][0]["reason"], "Local");
    // A start does not undo changes that a client has made in these objects.
    server
        .merge(
            "flowschemas",
            "global-default",
            json!({"spec": {"matchingPrecedence": 9000}}),
        )
        .unwrap();
    let before = server.registry.revision();
    write(&mut server);
    let schema = server.get("flowschemas", "global-default").unwrap();
    assert_eq!(schema["spec"]["matchingPrecedence"], 9000);
    let written = server.list("flowschemas", &options).unwrap();
    assert!(
        written
            .items
            .iter()
            .all(|one| one.stored.revision <= before)
    );
}

fn with_network(network: &str) -> Server {
    Server::with(RegistryOptions {
        service_cluster_ip_range: Some(network.to_owned()),
        ..RegistryOptions::default()
    })
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
}

#[test]
fn services_have_addresses_of_the_configured_network() {
    let mut server = with_network("fd00:7::/112");
    let now = server.now;
    let address = "[::1]:6443".parse().unwrap();
    server
        .registry
        .write_startup_objects((address, "PEM", None), now);
    let own = server.get("services", "kubernetes").unwrap();
    assert_eq!(own["spec"]["clusterIPs"], json!(["fd00:7::1"]));
    assert_eq!(own["spec"]["ipFamilies"], json!(["IPv6"]));
    let made = server.create("services", service("a")).unwrap();
    assert_eq!(made["spec"]["clusterIP"], "fd00:7::2");
    let mut asks = service("b");
    asks["spec"]["clusterIP"] = json!("fd00:7::0:2");
    let (code, message) = refused(server.create("services", asks.clone()));
    assert_eq!(code, 422);
    assert!(
        message.contains("provided IP is already allocated"),
        "{message}"
    );
    asks["spec"]["clusterIP"] = json!("10.96.0.9");
    let (code, message) = refused(server.create("services", asks));
    assert_eq!(code, 422);
    assert!(
        message.contains("IPv4 is not configured on this cluster"),
        "{message}"
    );
}

/// SRV-IP-1: if all addresses of the service network are taken, a new Service is refused and does not share an address.
#[test]
fn a_service_without_a_free_address_is_refused() {
    let mut server = with_network("10.0.0.0/29");
    for number in 1..=6 {
        let made = server.create("services", service(&format!("s{number}")));
        assert_eq!(
            made.unwrap()["spec"]["clusterIP"],
            format!("10.0.0.{number}")
        );
    }
    assert_eq!(
        refused(server.create("services", service("more"))),
        (
            500,
            "Internal error occurred: failed to allocate a serviceIP: range is full".to_owned()
        )
    );
    server.delete("services", "s3").unwrap();
    let made = server.create("services", service("more")).unwrap();
    assert_eq!(made["spec"]["clusterIP"], "10.0.0.3");
}

#[test]
fn a_server_publishes_its_authorities_and_its_lease() {
    let mut server = Server::new();
    let now = server.now;
    let address = "127.0.0.1:6443".parse().unwrap();
    let start = |server: &mut Server, clients: Option<&str>| {
        let listener = (address, "PEM", clients);
        server.registry.write_startup_objects(listener, now);
    };
    let system = |server: &Server, plural: &str, name: &str| -> Value {
        let resource = server.resource(plural);
        let target = crate::ObjectTarget::object(&resource, Some("kube-system"), name);
        let found = server.registry.get(target, None);
        found.unwrap().value().clone()
    };
    start(&mut server, None);
    let trust = "extension-apiserver-authentication";
    assert_eq!(system(&server, "configmaps", trust).get("data"), None);
    start(&mut server, Some("one\n"));
    start(&mut server, Some("two\n"));
    start(&mut server, Some("one\n"));
    let published = system(&server, "configmaps", trust);
    assert_eq!(published["data"], json!({"client-ca-file": "one\ntwo\n"}));
    let tracking = "kube-apiserver-legacy-service-account-token-tracking";
    let tracking = system(&server, "configmaps", tracking);
    assert_eq!(tracking["data"], json!({"since": "2026-01-02"}));
    let name = "apiserver-jgla3zmib2ggq5buc4hwi5talm";
    let lease = system(&server, "leases", name);
    assert_eq!(lease["spec"]["renewTime"], "2026-01-02T03:04:05.000000Z");
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap();
    assert!(holder.starts_with(name), "{holder}");
    let manager = &lease["metadata"]["managedFields"][0]["manager"];
    assert_eq!(*manager, "kube-apiserver");
    let label = "apiserver.kubernetes.io/identity";
    assert_eq!(lease["metadata"]["labels"][label], "kube-apiserver");
    // The endpoints of the Service `kubernetes` have managedFields. A start that changes nothing in them does not
    // write them.
    for (plural, field) in [
        ("endpoints", "f:subsets"),
        ("endpointslices", "f:endpoints"),
    ] {
        let before = server.get(plural, "kubernetes").unwrap();
        let owner = &before["metadata"]["managedFields"][0];
        assert_eq!(owner["manager"], "kube-apiserver", "{plural}");
        assert!(owner["fieldsV1"].get(field).is_some(), "{plural}");
        start(&mut server, None);
        assert_eq!(server.get(plural, "kubernetes").unwrap(), before);
    }
}

/// SRV-IP-2: creating and deleting a Service creates and deletes IPAddresses.
#[test]
fn each_address_of_a_service_has_an_ip_address() {
    let mut server = with_network("10.0.0.0/28");
    let addresses = |server: &Server| server.names("ipaddresses", &crate::ListQuery::default());
    server.create("services", service("a")).unwrap();
    assert_eq!(addresses(&server), ["10.0.0.1"]);
    server.delete("services", "a").unwrap();
    assert!(addresses(&server).is_empty());
    let now = server.now;
    let listener = ("127.0.0.1:6443".parse().unwrap(), "PEM", None);
    server.registry.write_startup_objects(listener, now);
    let cidr = server.get("servicecidrs", "kubernetes").unwrap();
    assert_eq!(cidr["spec"]["cidrs"], json!(["10.0.0.0/28"]));
    assert_eq!(cidr["status"]["conditions"][0]["status"], "True");
    let own = server.get("ipaddresses", "10.0.0.1").unwrap();
    assert_eq!(
        own["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "kubernetes"})
    );
    assert_eq!(
        own["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );
    // An address for which a client has created an IPAddress object is not assigned to a Service.
    let reserved = json!({"metadata": {"name": "10.0.0.3"}, "spec": {"parentRef":
        {"group": "example.com", "resource": "things", "name": "x"}}});
    server.create("ipaddresses", reserved).unwrap();
    for expected in ["10.0.0.2", "10.0.0.4"] {
        let name = format!("s{}", expected.replace('.', "-"));
        let made = server.create("services", service(&name)).unwrap();
        assert_eq!(made["spec"]["clusterIP"], expected);
    }
    // If a Service becomes an ExternalName, it loses its address, and the IPAddress object is deleted.
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com",
        "clusterIP": null, "clusterIPs": null}});
    server.merge("services", "s10-0-0-2", external).unwrap();
    assert_eq!(addresses(&server), ["10.0.0.1", "10.0.0.3", "10.0.0.4"]);
}
