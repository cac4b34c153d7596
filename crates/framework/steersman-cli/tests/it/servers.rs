//! Tests the servers that flags start.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser as _;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_cli::{Args, Config, NoSettings};
use steersman_manager::{Group, Shutdown, runnable};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

fn config(flags: &[&str]) -> Config<NoSettings> {
    let words = ["program"].iter().chain(flags);
    let args = Args::try_parse_from(words).unwrap();
    args.config_with(|_| None).unwrap()
}

/// Returns the status line and the body of the response to a GET.
async fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let read = timeout(Duration::from_secs(60), stream.read_to_string(&mut text));
    read.await.unwrap().unwrap();
    let first = text.lines().next().unwrap_or_default().to_owned();
    (first, text)
}

#[tokio::test]
async fn flags_set_up_probes_and_metrics() {
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let flags = [
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
        "--metrics-secure=false",
    ];
    let manager = config(&flags)
        .manager_over(client_config, "program")
        .build()
        .unwrap();
    let (tell, started) = oneshot::channel();
    let last = runnable::from_fn("last", Group::Others, |context| async move {
        let _ = tell.send(());
        context.cancelled().await;
        Ok(())
    });
    manager.add(last).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.start(Shutdown::when(async move {
        let _ = stopped.await;
    })));
    timeout(Duration::from_secs(60), started)
        .await
        .unwrap()
        .unwrap();
    let (health, metrics) = (manager.health_address(), manager.metrics_address());
    assert!(get(health.unwrap(), "/livez").await.0.contains("200"));
    let (status, text) = get(metrics.unwrap(), "/metrics").await;
    assert!(
        status.contains("200") && text.contains("process_open_fds"),
        "{text}"
    );
    // Without access control, the log level has no route, because any client could change it.
    assert!(
        get(metrics.unwrap(), "/debug/log-level")
            .await
            .0
            .contains("404")
    );
    assert!(
        get(metrics.unwrap(), "/debug/steersman")
            .await
            .0
            .contains("404")
    );
    drop(stop);
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_flag_elects_a_leader_on_the_lease_of_the_program() {
    let server = ApiServer::new();
    let flags = [
        "--health-probe-bind-address=0",
        "--leader-elect",
        "--leader-election-namespace=default",
    ];
    let manager_of = |flags: &[&str]| {
        let client_config = ClientConfig::in_process(server.service(), "default");
        config(flags).manager_over(client_config, "program").build()
    };
    let manager = manager_of(&flags).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.start(Shutdown::when(async move {
        let _ = stopped.await;
    })));
    timeout(Duration::from_secs(60), manager.elected())
        .await
        .unwrap();
    let leases = server.list("leases.coordination.k8s.io", "default");
    let spec = &leases[0]["spec"];
    assert_eq!(
        (leases.len(), &leases[0]["metadata"]["name"]),
        (1, &"program".into())
    );
    assert_eq!(spec["leaseDurationSeconds"], 15);
    drop(stop);
    running.await.unwrap().unwrap();
    // Contradicting durations are refused when the manager is built.
    let wrong = [&flags[..], &["--leader-election-renew-deadline=20s"]].concat();
    let error = manager_of(&wrong).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("15s") && source.contains("20s"), "{source}");
}

#[tokio::test]
async fn a_missing_certificate_ends_the_start_with_the_file() {
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let flags = [
        "--health-probe-bind-address=0",
        "--metrics-bind-address=127.0.0.1:0",
        "--metrics-cert-path=/nowhere",
        "--metrics-cert-name=chain.pem",
    ];
    let manager = config(&flags)
        .manager_over(client_config, "program")
        .build()
        .unwrap();
    let failed = manager.start(Shutdown::never()).await.unwrap_err();
    let source = std::error::Error::source(&failed).unwrap().to_string();
    assert!(source.contains("/nowhere/chain.pem"), "{failed}: {source}");
}

#[test]
fn an_address_without_a_port_is_refused() {
    let words = ["program", "--metrics-bind-address=8443"];
    let error = Args::try_parse_from(words).unwrap_err().to_string();
    assert!(error.contains(":8081"), "{error}");
}

#[tokio::test]
async fn the_certificate_of_webhooks_comes_from_their_flags() {
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let flags = [
        "--health-probe-bind-address=0",
        "--webhook-cert-path=/nowhere",
        "--webhook-cert-key=key.pem",
        "--webhook-cert-name=chain.pem",
    ];
    let config = config(&flags);
    let manager = config
        .manager_over(client_config, "program")
        .webhooks(config.webhook_server("127.0.0.1:0"))
        .build()
        .unwrap();
    let failed = manager.start(Shutdown::never()).await.unwrap_err();
    let source = std::error::Error::source(&failed).unwrap().to_string();
    assert!(source.contains("/nowhere/chain.pem"), "{failed}: {source}");
}

#[test]
fn an_authority_of_cert_manager_needs_the_files_of_its_certificate() {
    let read = |flags: &[&str]| {
        let words = ["program"].iter().chain(flags);
        let args = Args::try_parse_from(words).unwrap();
        let variable = |name: &str| {
            let is_it = name == "STEERSMAN_WEBHOOK_INJECT_CA_FROM";
            is_it.then(|| "shop/hooks".into())
        };
        args.config_with(variable)
    };
    let error = read(&[]).unwrap_err().to_string();
    let expected = "webhook-inject-ca-from needs webhook-cert-path: cert-manager keeps";
    assert!(error.starts_with(expected), "{error}");
    let config = read(&["--webhook-cert-path=/certs"]).unwrap();
    let server = config.webhook_server(":9443");
    assert_eq!(server.ca_from().unwrap().to_string(), "shop/hooks");
    let wrong = ["program", "--webhook-inject-ca-from=hooks"];
    let error = Args::try_parse_from(wrong).unwrap_err().to_string();
    assert!(error.contains("write it as NAMESPACE/NAME"), "{error}");
}
