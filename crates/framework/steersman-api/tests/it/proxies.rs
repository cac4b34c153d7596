//! Connections through a proxy, over real sockets.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::kube_client::config::Kubeconfig;
use steersman_api::{Api, ClientConfig, Error, Paging};
use steersman_apiserver::{ApiServer, Serving};
use steersman_object::ListOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Runs a proxy that opens tunnels. Returns its port, and the head of each request for a tunnel.
async fn serve_proxy() -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, asked) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(tunnel(client, tell.clone()));
        }
    });
    (port, asked)
}

async fn tunnel(mut client: TcpStream, tell: mpsc::UnboundedSender<String>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    tell.send(head).unwrap();
    let mut server = TcpStream::connect(target).await.unwrap();
    let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
    client.write_all(answer).await.unwrap();
    // Ends when the client or the server closes the connection.
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

/// Returns a connection to a server through a proxy.
async fn through(proxy: &str, serving: &Serving) -> ClientConfig {
    let mut kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap();
    let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
    cluster.proxy_url = Some(proxy.to_owned());
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = serde_json::to_string(&kubeconfig).unwrap();
    std::fs::write(file.path(), text).unwrap();
    ClientConfig::from_kubeconfig(file.path()).await.unwrap()
}

async fn list(connection: &ClientConfig) -> Result<(), Error> {
    let api: Api<ConfigMap> = Api::typed(connection.client().unwrap());
    let page = api.list(&ListOptions::new(), &Paging::new()).await;
    page.map(drop)
}

#[tokio::test]
async fn requests_go_through_the_tunnel_of_a_proxy() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let (port, mut asked) = serve_proxy().await;
    let proxy = format!("http://me:secret@127.0.0.1:{port}");
    let connection = through(&proxy, &serving).await;
    list(&connection).await.unwrap();
    list(&connection).await.unwrap();
    let head = asked.recv().await.unwrap();
    assert!(head.starts_with("CONNECT 127.0.0.1:"), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic "), "{head}");
    // CONN-1: both requests use one connection.
    assert!(asked.try_recv().is_err());
    serving.stop().await;
}

#[tokio::test]
async fn a_proxy_that_cannot_be_reached_is_named_without_its_password() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let proxy = format!("http://me:hunter2@127.0.0.1:{port}");
    let connection = through(&proxy, &serving).await;
    let error = list(&connection).await.unwrap_err();
    let text = steersman_object::report(&error).to_string();
    assert!(
        text.contains(&format!("the proxy 127.0.0.1:{port}")),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
    serving.stop().await;
}
