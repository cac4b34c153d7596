//! The debug page over sockets, in real time: access, sign-in, live updates, and a browser.

mod browser;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use rustls::pki_types::ServerName;
use serde_json::json;
use steersman_api::AnyCertificate;
use steersman_apiserver::ApiServer;
use steersman_apiserver::auth::User;
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Reconciler, Request,
};
use steersman_manager::{Error, Manager, MetricsServer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use self::browser::Browser;
use crate::metrics_server::{grant, secured};
use crate::probes::{get, started_listening};
use crate::world::{Started, config_map, manager_of, soon};

/// Fails for all objects but those that are named `good`.
struct Shop;

impl Reconciler for Shop {
    async fn reconcile(&self, _: &Context, request: Request) -> Result<Action, ReconcileError> {
        match request.key.name() {
            "good" => Ok(Action::done()),
            _ => Err(ReconcileError::msg("the shop is <closed>")),
        }
    }
}

fn add_shop(manager: &Manager) {
    let shop = Controller::builder::<ConfigMap>().name("shops");
    manager.add_controller(shop.build(Shop).unwrap()).unwrap();
}

/// Starts a manager with an open page on a loopback address.
async fn opened(server: &ApiServer) -> (Manager, Started) {
    let options = MetricsServer::new("127.0.0.1:0").debug_page(true);
    let manager = manager_of(server).metrics(options).build().unwrap();
    add_shop(&manager);
    let started = started_listening(&manager).await;
    (manager, started)
}

/// Sends a request, and returns the whole response. Ends when the server closes the connection.
async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A missing end of the TLS connection also ends the response.
    let _ = soon(stream.read_to_end(&mut bytes)).await;
    String::from_utf8(bytes).unwrap()
}

async fn over_tls(manager: &Manager, request: &str) -> String {
    let config = AnyCertificate::client_config().unwrap();
    let stream = TcpStream::connect(manager.metrics_address().unwrap()).await;
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream.unwrap()).await.unwrap();
    exchange(&mut stream, request).await
}

#[tokio::test]
async fn a_page_that_every_client_could_read_is_refused_when_the_manager_is_built() {
    let server = ApiServer::new();
    for (address, is_good) in [
        (":8080", false),
        ("0.0.0.0:8080", false),
        ("127.0.0.1:8080", true),
        ("localhost:8080", true),
        ("0", true),
    ] {
        let options = MetricsServer::new(address).debug_page(true);
        let built = manager_of(&server).metrics(options).build();
        assert_eq!(built.is_ok(), is_good, "{address}");
        if let Err(error) = built {
            assert!(matches!(error, Error::DebugPage { .. }), "{error}");
            assert!(error.to_string().contains("--metrics-secure"), "{error}");
        }
    }
}

#[tokio::test]
async fn without_the_option_there_is_no_page() {
    let server = ApiServer::new();
    let manager = manager_of(&server).metrics(MetricsServer::new("127.0.0.1:0"));
    let manager = manager.build().unwrap();
    let started = started_listening(&manager).await;
    let address = manager.metrics_address().unwrap();
    assert_eq!(get(address, "/debug/").await.0, 404);
    started.stop().await.unwrap();
}

/// SERVE-5
#[tokio::test]
async fn a_browser_signs_in_with_a_token_and_sees_what_its_user_may_read() {
    let (server, serving, client_config) = secured().await;
    let rules = json!([{ "nonResourceURLs": ["/debug", "/debug/*"], "verbs": ["get"] }]);
    grant(&server, "ann", &rules);
    let good = server.add_user(User::new("ann"));
    let other = server.add_user(User::new("bob"));
    let options = MetricsServer::secure("127.0.0.1:0").debug_page(true);
    let manager = Manager::builder(client_config)
        .metrics(options)
        .build()
        .unwrap();
    let started = started_listening(&manager).await;
    let ask = async |path: &str, headers: &str| {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
        over_tls(&manager, &head).await
    };
    let html = "Accept: text/html\r\n";
    let to_form = ask("/debug/", html).await;
    assert!(to_form.starts_with("HTTP/1.1 303"), "{to_form}");
    assert!(to_form.contains("location: sign-in\r\n"), "{to_form}");
    assert!(
        ask("/debug/api/overview", "")
            .await
            .starts_with("HTTP/1.1 401")
    );
    let form = ask("/debug/sign-in", html).await;
    assert!(
        form.contains("name=\"token\"") && form.contains("content-security-policy"),
        "{form}"
    );
    let body = format!("token={good}");
    let sent = format!(
        "POST /debug/sign-in HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let signed = over_tls(&manager, &sent).await;
    assert!(
        signed.contains("HttpOnly; SameSite=Strict; Secure"),
        "{signed}"
    );
    let cookie = |token: &str| format!("{html}Cookie: a=b; steersman-token={token}\r\n");
    let page = ask("/debug/", &cookie(&good)).await;
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("What needs attention"),
        "{page}"
    );
    assert!(
        ask("/debug/", &cookie(&other))
            .await
            .starts_with("HTTP/1.1 403")
    );
    assert!(
        ask("/metrics", &cookie(&good))
            .await
            .starts_with("HTTP/1.1 403")
    );
    started.stop().await.unwrap();
    serving.stop().await;
}

#[tokio::test]
async fn a_live_page_is_sent_again_when_it_has_changed_and_ends_with_the_operator() {
    let server = ApiServer::new();
    let (manager, started) = opened(&server).await;
    let stream = TcpStream::connect(manager.metrics_address().unwrap()).await;
    let mut stream = stream.unwrap();
    let head = "GET /debug/live/overview HTTP/1.1\r\nHost: localhost:1\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = String::new();
    let mut read = async |seen: &mut String| {
        let mut bytes = [0; 8192];
        let many = soon(stream.read(&mut bytes)).await.unwrap();
        seen.push_str(&String::from_utf8_lossy(&bytes[..many]));
        many
    };
    while !seen.contains("Nothing: no controller waits") {
        assert!(read(&mut seen).await > 0, "{seen}");
    }
    assert!(
        seen.contains("text/event-stream") && seen.contains("data: <h1>"),
        "{seen}"
    );
    server.create(config_map("bad")).unwrap();
    while !seen.contains("the shop is &lt;closed&gt;") {
        assert!(read(&mut seen).await > 0, "{seen}");
    }
    let stopped = tokio::spawn(started.stop());
    while read(&mut seen).await > 0 {}
    soon(stopped).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_open_page_is_read_only_by_an_address_or_as_localhost() {
    let server = ApiServer::new();
    let (manager, started) = opened(&server).await;
    for (host, status) in [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("localhost", 200),
        ("evil.example", 403),
        ("localhost.evil.example:80", 403),
    ] {
        let stream = TcpStream::connect(manager.metrics_address().unwrap()).await;
        let head = format!("GET /debug/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = exchange(&mut stream.unwrap(), &head).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{host}: {answer}"
        );
    }
    started.stop().await.unwrap();
}

/// Opens a page, and waits until it is live.
async fn open_live(browser: &Browser, address: &str) {
    browser.open(address).await;
    browser
        .until("document.getElementById('state').textContent === 'live'")
        .await;
}

#[tokio::test]
async fn a_browser_shows_the_page_and_follows_it_to_the_error_of_an_object() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let server = ApiServer::new();
    for name in ["bad", "good"] {
        server.create(config_map(name)).unwrap();
    }
    let (manager, started) = opened(&server).await;
    let address = manager.metrics_address().unwrap();
    browser.open(&format!("http://{address}/debug")).await;
    browser
        .until("document.querySelector('.title')?.textContent.includes('default/bad has failed')")
        .await;
    assert_eq!(
        browser
            .eval("document.getElementById('state').textContent")
            .await,
        "live"
    );
    browser.shot("overview").await;
    browser
        .eval("document.querySelector('.title').click()")
        .await;
    browser
        .until("document.querySelector('h1')?.textContent === 'ConfigMap.v1 default/bad'")
        .await;
    browser
        .until("document.body.textContent.includes('error: the shop is <closed>')")
        .await;
    browser.shot("object").await;
    browser
        .open(&format!(
            "http://{address}/debug/controller?controller=shops"
        ))
        .await;
    browser
        .until("document.body.textContent.includes('failures in a row')")
        .await;
    // An open part stays open when the page is replaced.
    browser
        .eval("document.querySelector('details')?.setAttribute('open', '')")
        .await;
    browser.shot("controller").await;
    for page in ["caches", "server", "replicas"] {
        open_live(&browser, &format!("http://{address}/debug/{page}")).await;
        browser.shot(page).await;
    }
    // The whole page fits a phone: only tables scroll.
    browser.resize(360, 740).await;
    for page in ["", "controller?controller=shops", "caches"] {
        open_live(&browser, &format!("http://{address}/debug/{page}")).await;
        let is_wide = browser
            .eval("document.documentElement.scrollWidth > innerWidth")
            .await;
        assert_eq!(is_wide, false, "{page}");
        browser
            .shot(&format!("phone-{}", page.split('?').next().unwrap()))
            .await;
    }
    browser.assert_no_complaints().await;
    browser.end().await;
    started.stop().await.unwrap();
}
