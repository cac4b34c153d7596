//! Answers in protobuf over HTTPS.

use http::Request;
use http_body_util::BodyExt as _;
use kube_client::client::Body;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use steersman_apiserver::{ApiServer, Serving};

use super::{PROTOBUF, STREAM, decoded, decoded_events};
use crate::support::{CONFIG_MAPS, config_map};

async fn client(serving: &Serving) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

#[tokio::test]
async fn lists_and_watches_arrive_over_https() {
    let server = ApiServer::new();
    for index in 0..200 {
        let mut object = config_map(&format!("c{index:03}"));
        object["data"]["text"] = "y".repeat(2000).into();
        server.create(object).unwrap();
    }
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let client = client(&serving).await;
    let fetch = async |path: String, accept: &str| {
        let request = Request::get(path).header("accept", accept);
        let response = client
            .send(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        let content_type = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        let length = response.headers().get("content-length").cloned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        if let Some(length) = length {
            assert_eq!(length, body.len().to_string());
        }
        (content_type, body)
    };
    let (content_type, body) = fetch(CONFIG_MAPS.to_owned(), PROTOBUF).await;
    assert_eq!(content_type, PROTOBUF);
    let list = decoded(&body);
    let (_, json) = fetch(CONFIG_MAPS.to_owned(), "application/json").await;
    assert_eq!(
        list,
        serde_json::from_slice::<serde_json::Value>(&json).unwrap()
    );
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1");
    let (content_type, body) = fetch(path, STREAM).await;
    assert_eq!(content_type, STREAM);
    let events = decoded_events(&body);
    assert_eq!(events.len(), 200);
    assert_eq!(events[7]["object"]["metadata"]["name"], "c007");
}
