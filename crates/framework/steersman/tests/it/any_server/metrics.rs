//! The secure metrics server: TokenReviews and SubjectAccessReviews of the server decide about each scrape.

use std::net::SocketAddr;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use steersman::manager::MetricsServer;
use steersman::{ClientConfig, Manager, http, kube_client};
use steersman_testenv::eventually;

use super::world::{Running, World, connection_of};

/// Returns the status and the text of a scrape.
async fn scrape(address: SocketAddr, token: Option<&str>) -> (u16, String) {
    let url = format!("https://{address}").parse().unwrap();
    let mut config = kube_client::Config::new(url);
    // The server signs its certificate itself.
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = ClientConfig::from_config(config).connect().await.unwrap();
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    match client.request_text(request).await {
        Ok(text) => (200, text),
        Err(kube_client::Error::Api(status)) => (status.code, status.message.clone()),
        Err(other) => panic!("{other}"),
    }
}

impl World {
    /// Creates a service account, and returns a token of it.
    async fn token_of(&self, name: &str) -> String {
        let account = ServiceAccount {
            metadata: self.key(name).to_meta(),
            ..ServiceAccount::default()
        };
        self.client.create(&account).await.unwrap();
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(600),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = self.client.token(&self.key(name), &request).await.unwrap();
        answer.status.unwrap().token.unwrap()
    }
}

/// SERVE-5
#[tokio::test]
async fn a_scrape_needs_a_token_of_a_user_with_the_permission() {
    let world = World::start().await;
    let operator = world.env.user(format!("operator-of-{}", world.namespace));
    let operator = operator.bind_everywhere("system:auth-delegator").create();
    let manager = Manager::builder(connection_of(&operator.await.unwrap()))
        .metrics(MetricsServer::secure("127.0.0.1:0"))
        .build()
        .unwrap();
    let running = Running::start(&manager);
    let address = eventually("the server listens", || async {
        manager.metrics_address().ok_or_else(String::new)
    });
    let address = address.await.unwrap();

    let (good, other) = (world.token_of("good").await, world.token_of("other").await);
    let prometheus = format!("system:serviceaccount:{}:good", world.namespace);
    // This role of every cluster permits GET of /metrics.
    let prometheus = world.env.user(prometheus);
    let prometheus = prometheus.bind_everywhere("system:monitoring").create();
    prometheus.await.unwrap();
    // A server may know new bindings a little later, and a refusal is kept for 30 s.
    let text = eventually("the scrape succeeds", || async {
        match scrape(address, Some(&good)).await {
            (200, text) => Ok(text),
            refused => Err(format!("{refused:?}")),
        }
    });
    let text = text.await.unwrap();
    assert!(text.contains("process_cpu_seconds_total"), "{text}");
    assert_eq!(scrape(address, None).await.0, 401);
    assert_eq!(scrape(address, Some("wrong")).await.0, 401);
    assert_eq!(scrape(address, Some(&other)).await.0, 403);
    running.stop().await;
}
