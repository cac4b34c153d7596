//! What stands in a cluster whose server has begun to serve.

use serde_json::json;

use super::Server;

#[test]
fn a_server_has_a_service_of_its_own() {
    let mut server = Server::new();
    let now = server.now;
    server
        .registry
        .furnish("127.0.0.1:6443".parse().unwrap(), now);
    let service = server.get("services", "kubernetes").unwrap();
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
    assert_eq!(
        server
            .get("priorityclasses", "system-node-critical")
            .unwrap()["value"],
        2_000_001_000
    );
    // Another listener moves what the Service leads to, and nothing else.
    server
        .registry
        .furnish("127.0.0.1:7443".parse().unwrap(), now);
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
