//! CONN-4: certificates and tokens in files that change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use steersman_api::{Api, ClientConfig, Error, Paging, kube_client};
use steersman_apiserver::auth::{Authorization, User};
use steersman_apiserver::{ApiServer, History, Serving};
use steersman_object::ListOptions;
use tempfile::TempDir;
use tokio::time::timeout;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const LONG: Duration = Duration::from_secs(30);

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A folder of credentials, and a kubeconfig that names its files.
struct Mount {
    folder: TempDir,
}

impl Mount {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Connects with a kubeconfig with paths relative to its folder.
    async fn connect(&self, url: &str, user: &str) -> ClientConfig {
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: one, \
             clusters: [{{name: here, cluster: {{server: \"{url}\", certificate-authority: ca.crt}}}}], \
             users: [{{name: me, user: {user}}}], \
             contexts: [{{name: one, context: {{cluster: here, user: me}}}}]}}"
        );
        self.write("config", &kubeconfig);
        connect(&self.path("config")).await
    }
}

async fn connect(path: &Path) -> ClientConfig {
    ClientConfig::from_kubeconfig(path).await.unwrap()
}

async fn list(client: &kube_client::Client) -> Result<usize, Error> {
    let api: Api<Namespace> = Api::typed(client.clone());
    let (all, paging) = (ListOptions::new(), Paging::new());
    let page = timeout(LONG, api.list(&all, &paging)).await.unwrap();
    Ok(page?.items.len())
}

pub(crate) fn issuer(name: &str) -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns the certificate and the key of a user in the group `system:masters`.
pub(crate) fn client_of(issuer: &Issuer, user: &str) -> (String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, user);
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// Returns the user of the last request for namespaces.
pub(crate) fn last_user(server: &ApiServer) -> String {
    let asked = server.requests().matching(|r| r.is_for("namespaces"));
    asked.last().unwrap().user.clone()
}

async fn serve(server: &ApiServer) -> Serving {
    server.serve("127.0.0.1:0").await.unwrap()
}

#[tokio::test]
async fn a_refused_token_is_read_again_and_the_request_sent_once_more() {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let serving = serve(&server).await;
    let mount = Mount::new();
    mount.write("ca.crt", serving.ca_pem());
    mount.write("token", "old\n");
    let connection = mount.connect(&serving.url(), "{tokenFile: token}").await;
    let client = connection.client().unwrap();
    let error = list(&client).await.unwrap_err();
    assert!(error.is_unauthorized(), "{error}");
    let sent = |server: &ApiServer| server.requests().count(|r| r.is_for("namespaces"));
    // The token has not changed, so the request is sent once.
    assert_eq!(sent(&server), 1);
    let token = server.add_user(User::admin());
    mount.write("token", &format!("{token}\n"));
    assert!(list(&client).await.unwrap() > 0);
    assert_eq!(sent(&server), 3);
    // The new token is kept from then on, even without the file.
    std::fs::remove_file(mount.path("token")).unwrap();
    assert!(list(&client).await.unwrap() > 0);
    assert_eq!(sent(&server), 4);
    assert_eq!(serving.accepted(), 1);
    serving.stop().await;
}

/// A token that the server still accepts is renewed, too, on a connection that stays open.
#[tokio::test]
async fn a_token_is_read_again_each_minute() {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let serving = serve(&server).await;
    let admin = |name: &str| server.add_user(User::new(name).group("system:masters"));
    let mount = Mount::new();
    mount.write("ca.crt", serving.ca_pem());
    mount.write("token", &admin("alice"));
    let connection = mount.connect(&serving.url(), "{tokenFile: token}").await;
    let client = connection.client().unwrap();
    assert!(list(&client).await.unwrap() > 0);
    mount.write("token", &admin("bob"));
    for (seconds, user) in [(50, "alice"), (11, "bob")] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
        assert!(list(&client).await.unwrap() > 0);
        assert_eq!(last_user(&server), user);
    }
    assert_eq!(serving.accepted(), 1);
    serving.stop().await;
}

/// The configuration is like that of `Config::incluster` for a service account.
#[tokio::test]
async fn the_token_of_a_configuration_with_files_is_read_again() {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let serving = serve(&server).await;
    let mount = Mount::new();
    mount.write("ca.crt", serving.ca_pem());
    mount.write("token", "old");
    let mut config = kube_client::Config::new(serving.url().parse().unwrap());
    config.root_cert_file = Some(mount.path("ca.crt"));
    config.auth_info.token_file = Some(mount.path("token").to_str().unwrap().to_owned());
    let connection = ClientConfig::from_config(config);
    let client = connection.client().unwrap();
    assert!(list(&client).await.unwrap_err().is_unauthorized());
    mount.write("token", &server.add_user(User::admin()));
    assert!(list(&client).await.unwrap() > 0);
    serving.stop().await;
}

#[tokio::test]
async fn a_new_connection_trusts_the_authority_that_is_in_the_file_now() {
    let server = ApiServer::new();
    let first = serve(&server).await;
    let (address, url) = (first.addr(), first.url());
    let mount = Mount::new();
    mount.write("ca.crt", first.ca_pem());
    let token = server.add_user(User::admin());
    let connection = mount.connect(&url, &format!("{{token: {token}}}")).await;
    let client = connection.client().unwrap();
    assert!(list(&client).await.unwrap() > 0);
    first.stop().await;
    // The second listener has another certificate authority.
    let second = server.serve(address).await.unwrap();
    let error = list(&client).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    // Unusable files leave the last valid credentials in use.
    mount.write("ca.crt", "-----BEGIN CERTIFICATE-----\nhalf of it");
    let error = list(&client).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    mount.write("ca.crt", second.ca_pem());
    assert!(list(&client).await.unwrap() > 0);
    // A file that is being written may be empty.
    mount.write("ca.crt", "");
    server.restart(History::Kept);
    assert!(list(&client).await.unwrap() > 0);
    second.stop().await;
}

#[tokio::test]
async fn a_new_connection_presents_the_certificate_that_is_in_the_files_now() {
    let authority = issuer("clients");
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .client_authorities(authority.pem())
        .build();
    let serving = serve(&server).await;
    let mount = Mount::new();
    mount.write("ca.crt", serving.ca_pem());
    let foreign = client_of(&issuer("others"), "mallory");
    let (alice, bob) = (client_of(&authority, "alice"), client_of(&authority, "bob"));
    let show = |(certificate, key): (&str, &str)| {
        mount.write("tls.crt", certificate);
        mount.write("tls.key", key);
    };
    show((&foreign.0, &foreign.1));
    let user = "{client-certificate: tls.crt, client-key: tls.key}";
    let client = mount.connect(&serving.url(), user).await.client().unwrap();
    assert!(list(&client).await.unwrap_err().is_unauthorized());
    // A refused certificate is replaced at once, and the refused request is sent again on a new connection.
    show((&alice.0, &alice.1));
    assert!(list(&client).await.unwrap() > 0);
    assert_eq!(last_user(&server), "alice");
    // A certificate without its new key is not presented.
    show((&bob.0, &alice.1));
    server.restart(History::Kept);
    assert!(list(&client).await.unwrap() > 0);
    assert_eq!(last_user(&server), "alice");
    show((&bob.0, &bob.1));
    server.restart(History::Kept);
    assert!(list(&client).await.unwrap() > 0);
    assert_eq!(last_user(&server), "bob");
    serving.stop().await;
}

/// Counts warnings.
#[derive(Default)]
struct Warnings(AtomicUsize);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn unchecked_certificates_are_warned_of_once_per_connection_handle() {
    let warnings = Arc::new(Warnings::default());
    let _guard = tracing::subscriber::set_default(Arc::clone(&warnings));
    let server = ApiServer::new();
    let serving = serve(&server).await;
    let mut config = kube_client::Config::new(serving.url().parse().unwrap());
    config.accept_invalid_certs = true;
    let client_config = ClientConfig::from_config(config);
    for http1_only in [false, true, true] {
        let client = client_config
            .clone()
            .http1_only(http1_only)
            .client()
            .unwrap();
        assert!(list(&client).await.unwrap() > 0);
    }
    assert_eq!(serving.accepted(), 3);
    assert_eq!(warnings.0.load(Ordering::Relaxed), 1);
    serving.stop().await;
}
