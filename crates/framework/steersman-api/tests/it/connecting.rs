//! Clients made from connections, and unreachable servers.

use std::io::Write as _;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use steersman_api::{Api, ClientConfig, Paging, kube_client};
use steersman_apiserver::ApiServer;
use steersman_object::{ListOptions, ObjectKey};

#[tokio::test]
async fn a_kubeconfig_leads_to_the_server_over_https() {
    let server = ApiServer::builder().seed(1).build();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    serving.write_kubeconfig(&path).unwrap();
    let client_config = ClientConfig::from_kubeconfig(&path).await.unwrap();
    assert_eq!(client_config.endpoint(), serving.url());
    let api: Api<Namespace> = Api::typed(client_config.client().unwrap());
    let key = ObjectKey::cluster_scoped("default");
    assert_eq!(
        api.get(&key).await.unwrap().metadata.name.as_deref(),
        Some("default")
    );
    // The request has the `User-Agent` of the program.
    let agents = server.requests().matching(|r| r.is_for("namespaces"));
    assert!(
        agents[0].user_agent.contains("/steersman-"),
        "{}",
        agents[0].user_agent
    );
    serving.stop().await;
}

#[tokio::test]
async fn an_unreachable_server_is_named_in_the_error() {
    // This port was free a moment ago, so no program listens on it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let uri: http::Uri = format!("http://{address}").parse().unwrap();
    let client_config = ClientConfig::from_config(kube_client::Config::new(uri));
    let api: Api<ConfigMap> = Api::typed(client_config.client().unwrap());
    let error = api
        .list(&ListOptions::new(), &Paging::new())
        .await
        .unwrap_err();
    assert!(error.is_transport(), "{error}");
    let text = error.to_string();
    assert!(text.contains("list configmaps"), "{text}");
    assert!(
        text.contains(&format!("http://{address} cannot be reached")),
        "{text}"
    );
    assert!(text.to_lowercase().contains("refused"), "{text}");
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused_with_the_reason() {
    let server = ApiServer::builder().seed(1).build();
    let one = server.serve("127.0.0.1:0").await.unwrap();
    let other = ApiServer::builder().seed(2).build();
    let two = other.serve("127.0.0.1:0").await.unwrap();
    let mixed = one.kubeconfig().replace(&one.url(), &two.url());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(mixed.as_bytes()).unwrap();
    let client_config = ClientConfig::from_kubeconfig(file.path()).await.unwrap();
    assert_eq!(client_config.context(), Some("steersman"));
    let api: Api<ConfigMap> = Api::typed(client_config.client().unwrap());
    let error = api
        .list(&ListOptions::new(), &Paging::new())
        .await
        .unwrap_err();
    assert!(error.is_transport(), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
    one.stop().await;
    two.stop().await;
}

#[test]
fn outside_a_runtime_a_client_is_an_error_and_not_a_panic() {
    let server = ApiServer::builder();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    let server = runtime.block_on(async { server.seed(1).build() });
    let client_config = ClientConfig::in_process(server.service(), "web");
    assert_eq!(client_config.default_namespace(), "web");
    assert_eq!(client_config.namespace(), Some("web"));
    assert_eq!(client_config.context(), None);
    let error = client_config.client().err().unwrap();
    assert!(error.is_config(), "{error}");
    let _guard = runtime.enter();
    assert!(client_config.client().is_ok());
}
