//! Tests of a webhook on a real socket.

use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType, date_time_ymd,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::*;

/// A webhook that refuses everything, with a certificate for `localhost`.
pub(crate) struct Refuser {
    pub(crate) port: u16,
    ca: String,
    /// The serving certificate itself, in PEM.
    pub(crate) own: String,
    paths: Arc<Mutex<Vec<String>>>,
    serving: tokio::task::JoinHandle<()>,
}

pub(crate) async fn refuser() -> Refuser {
    refuser_with(|_| {}).await
}

/// A certificate of an authority of its own, for `localhost` and `judge.hooks.svc`.
struct Identity {
    acceptor: tokio_rustls::TlsAcceptor,
    ca: String,
    own: String,
}

/// Makes an authority, and returns its certificate in PEM.
pub(crate) fn authority() -> String {
    identity(|_| {}).ca
}

/// Makes a certificate, which is changed before it is signed.
fn identity(change: impl FnOnce(&mut CertificateParams)) -> Identity {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = ["localhost", "judge.hooks.svc", "127.0.0.1"].map(str::to_owned);
    let mut params = CertificateParams::new(names.to_vec()).unwrap();
    change(&mut params);
    let certificate = params.signed_by(&key, &ca).unwrap();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    Identity {
        acceptor: tokio_rustls::TlsAcceptor::from(Arc::new(config)),
        ca: ca.pem(),
        own: certificate.pem(),
    }
}

/// Starts such a webhook with a certificate that is changed before it is signed.
async fn refuser_with(change: impl FnOnce(&mut CertificateParams)) -> Refuser {
    let Identity { acceptor, ca, own } = identity(change);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let paths = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&paths);
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate closes the connection.
            let Ok(stream) = acceptor.accept(stream).await else {
                continue;
            };
            let record = Arc::clone(&record);
            let service =
                hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                    record.lock().push(request.uri().to_string());
                    async move {
                        let body = request.into_body().collect().await?.to_bytes();
                        let answer =
                            reviewed(&body, &|_| json!({"allowed": false}), &Seen::default());
                        Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(answer))))
                    }
                });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            let _ = connection.await;
        }
    });
    Refuser {
        port,
        ca,
        own,
        paths,
        serving,
    }
}

/// A webhook with a certificate of its own authority, on a real socket.
#[tokio::test]
async fn a_webhook_over_https_needs_a_trusted_certificate() {
    let Refuser {
        port,
        ca,
        paths,
        serving,
        ..
    } = refuser().await;
    let server = ApiServer::new();
    let url = format!("https://localhost:{port}/judge");
    let bundle = STANDARD.encode(ca);
    let client = json!({"clientConfig": {"url": url, "caBundle": bundle}, "timeoutSeconds": 30});
    validating(&server, "url", &client);
    let refused = refusal(&post(&server, CONFIG_MAPS, &config_map("a")).await);
    let message = "admission webhook \"url.example.com\" denied the request without explanation";
    assert_eq!(refused, (400, message.to_owned()));
    assert_eq!(*paths.lock(), ["/judge?timeout=30s"]);
    let plural = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    server.delete(plural, "", "url").unwrap();

    // Through a Service that is routed elsewhere.
    server.route_service("hooks", "judge", 443, &format!("https://localhost:{port}"));
    let service = json!({"namespace": "hooks", "name": "judge"});
    let client =
        json!({"clientConfig": {"service": service, "caBundle": bundle}, "timeoutSeconds": 30});
    validating(&server, "judge", &client);
    let (code, message) = refusal(&post(&server, CONFIG_MAPS, &config_map("a")).await);
    assert_eq!(code, 400, "{message}");
    server.delete(plural, "", "judge").unwrap();

    validating(
        &server,
        "stranger",
        &json!({"clientConfig": {"url": url}, "timeoutSeconds": 30}),
    );
    let refused = refusal(&post(&server, CONFIG_MAPS, &config_map("a")).await);
    let message = format!(
        "Internal error occurred: failed calling webhook \"stranger.example.com\": failed to call webhook: Post \"{url}?timeout=30s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"
    );
    assert_eq!(refused, (500, message));
    server.delete(plural, "", "stranger").unwrap();

    serving.abort();
    let _ = serving.await;
    validating(&server, "url", &client_at(&url, &bundle));
    let (code, message) = refusal(&post(&server, CONFIG_MAPS, &config_map("a")).await);
    assert_eq!(code, 500);
    assert!(
        message.ends_with("connect: connection refused"),
        "{message}"
    );
}

fn client_at(url: &str, bundle: &str) -> Value {
    json!({"clientConfig": {"url": url, "caBundle": bundle}, "timeoutSeconds": 30})
}

/// HOOK-1: envtest's bundle is the serving certificate alone, which was signed by an authority
/// outside the bundle, and its URLs have addresses as hosts.
#[tokio::test]
async fn hook_1_a_bundle_may_hold_the_serving_certificate_itself() {
    let Refuser {
        port,
        own,
        paths,
        serving,
        ..
    } = refuser().await;
    let server = ApiServer::new();
    let bundle = STANDARD.encode(own);
    let plural = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    server.route_service("hooks", "judge", 443, &format!("https://127.0.0.1:{port}"));
    let service = json!({"namespace": "hooks", "name": "judge"});
    for client in [
        client_at(&format!("https://127.0.0.1:{port}/judge"), &bundle),
        json!({"clientConfig": {"service": service, "caBundle": bundle}, "timeoutSeconds": 30}),
    ] {
        validating(&server, "own", &client);
        let (code, message) = refusal(&post(&server, CONFIG_MAPS, &config_map("a")).await);
        assert_eq!(code, 400, "{message}");
        server.delete(plural, "", "own").unwrap();
    }
    // The certificates of conversion webhooks follow the same rule: this webhook answers with no
    // conversion.
    let mut crd = website_crd();
    let mut beta = crd["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(beta);
    let url = format!("https://127.0.0.1:{port}/convert");
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": bundle}}});
    server.install_crd(crd).unwrap();
    let path = "/apis/example.com/v1beta1/namespaces/default/websites";
    let mut site = website("a");
    site["apiVersion"] = json!("example.com/v1beta1");
    let (code, message) = refusal(&post(&server, path, &site).await);
    assert!(code == 500 && !message.contains("x509"), "{message}");
    assert!(paths.lock().contains(&"/convert?timeout=30s".to_owned()));
    serving.abort();
}

/// Go's words describe what is wrong with a certificate.
#[tokio::test]
async fn a_refused_certificate_is_reported_in_gos_words() {
    let url = |port: u16| format!("https://127.0.0.1:{port}/judge");
    let told_of = async |refuser: &Refuser| {
        let server = ApiServer::new();
        let bundle = STANDARD.encode(&refuser.ca);
        validating(&server, "hook", &client_at(&url(refuser.port), &bundle));
        let (code, message) = refusal(&post(&server, CONFIG_MAPS, &config_map("a")).await);
        assert_eq!(code, 500, "{message}");
        message
    };
    let lead = |port: u16| {
        format!(
            "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post \"{}?timeout=30s\": tls: failed to verify certificate: x509: ",
            url(port)
        )
    };
    let old = refuser_with(|params| params.not_after = date_time_ymd(2020, 1, 1)).await;
    let message = told_of(&old).await;
    let start = "certificate has expired or is not yet valid: current time ";
    assert!(
        message.starts_with(&format!("{}{start}", lead(old.port))),
        "{message}"
    );
    assert!(
        message.ends_with(" is after 2020-01-01T00:00:00Z"),
        "{message}"
    );
    let named = refuser_with(|params| {
        params
            .subject_alt_names
            .retain(|name| !matches!(name, SanType::IpAddress(_)));
    })
    .await;
    let why = "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs";
    assert_eq!(told_of(&named).await, format!("{}{why}", lead(named.port)));
    old.serving.abort();
    named.serving.abort();
}

/// A webhook that closes each connection after its response is called over a new connection, and one that keeps
/// them is called over the same one.
#[tokio::test]
async fn a_connection_is_used_again_unless_the_webhook_has_closed_it() {
    for closes in [false, true] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let accepted = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let identity = identity(|_| {});
        let port = listener.local_addr().unwrap().port();
        let count = Arc::clone(&accepted);
        let acceptor = identity.acceptor;
        tokio::spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                let stream = acceptor.accept(stream).await.unwrap();
                let service =
                    hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async {
                        let body = request.into_body().collect().await?.to_bytes();
                        let answer =
                            reviewed(&body, &|_| json!({"allowed": true}), &Seen::default());
                        Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(answer))))
                    });
                let connection = hyper::server::conn::http1::Builder::new()
                    .keep_alive(!closes)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        let server = ApiServer::new();
        let url = format!("https://localhost:{port}/judge");
        validating(
            &server,
            "url",
            &client_at(&url, &STANDARD.encode(identity.ca)),
        );
        for name in ["a", "b", "c"] {
            let response = post(&server, CONFIG_MAPS, &config_map(name)).await;
            assert_eq!(response.status, 201, "{}", response.text);
        }
        let expected = if closes { 3 } else { 1 };
        assert_eq!(accepted.load(std::sync::atomic::Ordering::SeqCst), expected);
    }
}
