//! The tests of this folder on an existing cluster, for which the embedded server stands in.

use std::process::Command;

use steersman_apiserver::{ApiServer, Authorization};

#[test]
fn every_test_passes_unchanged_on_an_existing_cluster() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let serving = runtime.block_on(server.serve("127.0.0.1:0")).unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    serving.write_kubeconfig(kubeconfig.path()).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["any_server::", "--skip", "any_server::stand_in"])
        .env_remove("KUBEBUILDER_ASSETS")
        .env("USE_EXISTING_CLUSTER", "true")
        .env("KUBECONFIG", kubeconfig.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    let has_passed = output.status.success() && printed.contains("10 passed");
    assert!(has_passed, "{printed}\n{complained}");
    // The tests used this server, and left no permission behind.
    assert!(server.requests().all().len() > 100);
    let bindings = server.list("clusterrolebindings.rbac.authorization.k8s.io", "");
    let left = bindings
        .iter()
        .filter_map(|binding| binding["metadata"]["name"].as_str());
    let left: Vec<_> = left
        .filter(|n| n.starts_with("steersman-testenv-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
