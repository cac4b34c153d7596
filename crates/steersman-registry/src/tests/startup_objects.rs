//! Tests of the objects that a server writes when it starts.

use serde_json::json;

use super::Server;

#[test]
fn a_server_creates_its_own_service() {
    let mut server = Server::new();
    let now = server.now;
    server
        .registry
        .write_startup_objects(("127.0.0.1:6443".parse().unwrap(), "PEM"), now);
    let service = server.get("services", "kubernetes").unwrap();
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
    assert_eq!(
        server
            .get("priorityclasses", "system-node-critical")
            .unwrap()["value"],
        2_000_001_000
    );
    // Another listener changes only the endpoints of the Service.
    server
        .registry
        .write_startup_objects(("127.0.0.1:7443".parse().unwrap(), "other PEM"), now);
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
    // The next Service gets another address.
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
            .write_startup_objects(("127.0.0.1:6443".parse().unwrap(), "PEM"), now);
    };
    write(&mut server);
    let options = crate::ListOptions::default();
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
    // The server itself serves every group version of a cluster without CRDs.
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
    // Changes and deletions by clients survive the next start.
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
