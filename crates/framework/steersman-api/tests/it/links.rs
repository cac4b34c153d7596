//! The HTTP connections of a client, over real sockets.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::{
    Api, ApiListWatch, ClientConfig, ListWatch, Paging, WatchEvent, WatchOptions, WatchStream,
    kube_client,
};
use steersman_apiserver::{ApiServer, Serving};
use steersman_object::{Kind, ListOptions, ResourceVersion};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// The longest wait of a test, after which the test fails.
const LONG: Duration = Duration::from_secs(30);

async fn connect(kubeconfig: &str) -> ClientConfig {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(kubeconfig.as_bytes()).unwrap();
    ClientConfig::from_kubeconfig(file.path()).await.unwrap()
}

fn put(server: &ApiServer, name: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    });
    server.create(map).unwrap();
}

async fn open_watch(client: kube_client::Client, server: &ApiServer) -> WatchStream {
    let namespace = Some("default".to_owned());
    let list_watch = ApiListWatch::new(client, Kind::of::<ConfigMap>(), namespace);
    let now = ResourceVersion::new(server.revision().to_string());
    let options = WatchOptions::after(now);
    timeout(LONG, list_watch.watch(&options))
        .await
        .unwrap()
        .unwrap()
}

async fn list(client: kube_client::Client) -> Result<usize, steersman_api::Error> {
    let api: Api<ConfigMap> = Api::typed(client);
    let (all, paging) = (ListOptions::new().namespace("default"), Paging::new());
    let page = timeout(LONG, api.list(&all, &paging)).await;
    Ok(page.unwrap()?.items.len())
}

/// Returns the next event of a watch, without bookmarks.
async fn event(watch: &mut WatchStream) -> Result<WatchEvent, steersman_api::Error> {
    loop {
        match timeout(LONG, watch.next()).await.unwrap().unwrap() {
            Ok(WatchEvent::Bookmark { .. }) => {}
            event => return event,
        }
    }
}

async fn served(server: ApiServer) -> (ApiServer, Serving, ClientConfig) {
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let client_config = connect(&serving.kubeconfig()).await;
    (server, serving, client_config)
}

/// CONN-1
#[tokio::test]
async fn all_clients_of_a_connection_share_one_http_2_connection() {
    let (server, serving, client_config) = served(ApiServer::builder().seed(1).build()).await;
    let mut watches = Vec::new();
    for _ in 0..4 {
        // A cache, a client and a preflight each make a client, two of them at the same time.
        let client = client_config.client().unwrap();
        let other = client_config
            .clone()
            .user_agent("other", "1")
            .client()
            .unwrap();
        let both = futures::join!(open_watch(client, &server), open_watch(other, &server));
        watches.extend([both.0, both.1]);
    }
    put(&server, "a");
    for watch in &mut watches {
        assert!(matches!(event(watch).await, Ok(WatchEvent::Added(_))));
    }
    assert_eq!(serving.accepted(), 1);
    drop(watches);
    serving.stop().await;
}

/// CONN-1
#[tokio::test]
async fn watches_beyond_the_streams_that_a_server_allows_get_more_connections() {
    let (server, serving, client_config) =
        served(ApiServer::builder().seed(1).http2_streams(100).build()).await;
    let client = client_config.client().unwrap();
    let mut watches = Vec::new();
    for _ in 0..300 {
        watches.push(open_watch(client.clone(), &server).await);
    }
    // Watches occupy all streams, but requests do not wait for a stream.
    assert_eq!(list(client).await.unwrap(), 0);
    put(&server, "a");
    for watch in &mut watches {
        assert!(matches!(event(watch).await, Ok(WatchEvent::Added(_))));
    }
    assert_eq!(serving.accepted(), 4);
    drop(watches);
    serving.stop().await;
}

/// CONN-1: no stream is opened before the server has sent the number of streams that it allows.
#[tokio::test]
async fn concurrent_requests_succeed_if_the_server_allows_few_streams() {
    let (server, serving, client_config) =
        served(ApiServer::builder().seed(1).http2_streams(2).build()).await;
    let client = client_config.client().unwrap();
    let lists = (0..40).map(|_| list(client.clone()));
    for listed in futures::future::join_all(lists).await {
        assert_eq!(listed.unwrap(), 0);
    }
    let watches = (0..7).map(|_| open_watch(client.clone(), &server));
    let watches = futures::future::join_all(watches).await;
    assert_eq!(watches.len(), 7);
    drop(watches);
    serving.stop().await;
}

#[tokio::test]
async fn http_1_is_spoken_where_http_2_is_not_offered_and_connections_are_used_again() {
    let (server, serving, client_config) = served(ApiServer::builder().seed(1).build()).await;
    let client = client_config.http1_only(true).client().unwrap();
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(open_watch(client.clone(), &server).await);
    }
    for _ in 0..5 {
        assert_eq!(list(client.clone()).await.unwrap(), 0);
    }
    put(&server, "a");
    for watch in &mut watches {
        assert!(matches!(event(watch).await, Ok(WatchEvent::Added(_))));
    }
    assert_eq!(serving.accepted(), 4);
    drop(watches);
    serving.stop().await;
}

/// A connection to a server. After a cut without a reset, bytes that are sent on it are lost.
struct Cable {
    address: SocketAddr,
    /// The number of cuts.
    cut: watch::Sender<u32>,
}

impl Cable {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = watch::Sender::new(0);
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let cuts = cuts.subscribe();
                tokio::spawn(async move {
                    let server = TcpStream::connect(server).await.unwrap();
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    futures::join!(
                        carry(from_client, to_server, cuts.clone()),
                        carry(from_server, to_client, cuts)
                    );
                });
            }
        });
        Self { address, cut }
    }

    /// Cuts the existing connections; later connections work.
    fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut cuts: watch::Receiver<u32>,
) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = tokio::select! {
            read = from.read(&mut bytes) => read.unwrap_or(0),
            _ = cuts.changed() => {
                // Both sockets stay open and silent.
                let silent: () = futures::future::pending().await;
                return silent;
            }
        };
        if read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            let _ = to.shutdown().await;
            return;
        }
    }
}

/// CONN-2
#[tokio::test]
async fn a_silent_link_is_closed_and_the_next_request_opens_another() {
    let server = ApiServer::builder().seed(1).build();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let cable = Arc::new(Cable::to(serving.addr()).await);
    let kubeconfig = serving
        .kubeconfig()
        .replace(&serving.url(), &format!("https://{}", cable.address));
    let client_config = connect(&kubeconfig)
        .await
        .ping_interval(Duration::from_millis(500))
        .ping_timeout(Duration::from_secs(2));
    let client = client_config.client().unwrap();
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(open_watch(client.clone(), &server).await);
    }
    put(&server, "a");
    for watch in &mut watches {
        assert!(matches!(event(watch).await, Ok(WatchEvent::Added(_))));
    }
    cable.cut();
    for watch in &mut watches {
        let error = event(watch).await.unwrap_err();
        assert!(error.is_transport(), "{error}");
    }
    assert_eq!(list(client).await.unwrap(), 1);
    assert_eq!(serving.accepted(), 2);
}

/// CONN-5
#[tokio::test]
async fn a_goaway_loses_no_request() {
    let (server, serving, client_config) = served(ApiServer::builder().seed(1).build()).await;
    let client = client_config.client().unwrap();
    for round in 0..20 {
        let asking = (0..8).map(|_| list(client.clone()));
        let asking = futures::future::join_all(asking);
        server.restart(steersman_apiserver::History::Kept);
        for listed in asking.await {
            assert_eq!(listed.unwrap(), 0, "round {round}");
        }
    }
    serving.stop().await;
}
