//! etcd and kube-apiserver, started as `pkg/internal/testing/controlplane` of controller-runtime does.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use regex::Regex;
use serde_json::json;
use tempfile::TempDir;

use super::programs::{Process, Programs};

/// Interval of the health checks.
const POLL: Duration = Duration::from_millis(100);
/// Number of health checks before a start has failed: 20 seconds.
const CHECKS: usize = 200;
/// Number of starts, because a port may be taken between its choice and the start.
const STARTS: usize = 5;

type Authority = CertifiedIssuer<'static, KeyPair>;

/// A running control plane.
pub(in crate::program) struct ControlPlane {
    folder: TempDir,
    etcd: Process,
    etcd_arguments: Vec<String>,
    pub(super) etcd_url: String,
    server: Process,
    arguments: Vec<String>,
    port: u16,
    /// The authority of the server's certificate.
    serving: Authority,
    /// The authority of the users' certificates.
    users: Authority,
}

impl ControlPlane {
    pub(super) async fn start(programs: &Programs, more: &[&str]) -> Self {
        Self::start_with(programs, more, &[]).await
    }

    /// Starts both programs with more flags: those of the server, and those of etcd.
    pub(in crate::program) async fn start_with(
        programs: &Programs,
        more: &[&str],
        etcd: &[&str],
    ) -> Self {
        for _ in 1..STARTS {
            if let Ok(plane) = Self::try_start(programs, more, etcd).await {
                return plane;
            }
        }
        match Self::try_start(programs, more, etcd).await {
            Ok(plane) => plane,
            Err(log) => panic!("{log}"),
        }
    }

    async fn try_start(
        programs: &Programs,
        more: &[&str],
        etcd_flags: &[&str],
    ) -> Result<Self, String> {
        let folder = TempDir::new().unwrap();
        let [client, peer, port] = free_ports();
        let etcd_url = format!("http://127.0.0.1:{client}");
        let data = folder.path().join("etcd");
        let mut etcd_arguments = vec![
            format!("--advertise-client-urls={etcd_url}"),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={etcd_url}"),
            format!("--listen-peer-urls=http://localhost:{peer}"),
        ];
        if has_flag(programs, "etcd", "unsafe-no-fsync").await {
            etcd_arguments.push("--unsafe-no-fsync=true".to_owned());
        }
        etcd_arguments.extend(etcd_flags.iter().copied().map(str::to_owned));
        let etcd = start_etcd(programs, &etcd_arguments, folder.path(), &etcd_url).await?;

        let serving = authority();
        let users = authority();
        write_certificates(folder.path(), &serving, &users);
        let file = |name: &str| folder.path().join(name).display().to_string();
        let mut arguments = vec![
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", folder.path().display()),
            format!("--client-ca-file={}", file("client-cert-auth-ca.crt")),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers={etcd_url}"),
            format!("--secure-port={port}"),
            format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            format!("--service-account-key-file={}", file("sa-signer.crt")),
            format!(
                "--service-account-signing-key-file={}",
                file("sa-signer.key")
            ),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ];
        assert!(!has_flag(programs, "kube-apiserver", "insecure-port").await);
        arguments.extend(more.iter().copied().map(str::to_owned));
        let log = folder.path().join("kube-apiserver.log");
        let server = programs.start("kube-apiserver", &arguments, &log);
        let mut plane = Self {
            folder,
            etcd,
            etcd_arguments,
            etcd_url,
            server,
            arguments,
            port,
            serving,
            users,
        };
        plane.await_server().await?;
        Ok(plane)
    }

    async fn await_server(&mut self) -> Result<(), String> {
        let anonymous = self.anonymous();
        healthy(&mut self.server, &anonymous, "/healthz").await
    }

    /// Returns a client without a credential.
    pub(super) fn anonymous(&self) -> Client {
        self.client(&json!({}))
    }

    /// Returns the client of a user with a certificate, as `AddUser` of envtest.
    pub(in crate::program) fn user(&self, name: &str, groups: &[&str]) -> Client {
        let (certificate, key) = user(&self.users, name, groups);
        self.client(&json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        }))
    }

    /// Returns the client of a user with a token.
    pub(super) fn bearer(&self, token: &str) -> Client {
        self.client(&json!({"token": token}))
    }

    fn client(&self, user: &serde_json::Value) -> Client {
        client(self.port, &self.serving.pem(), user)
    }

    /// Returns the issuer of tokens.
    pub(super) fn issuer(&self) -> String {
        format!("https://127.0.0.1:{}/", self.port)
    }

    pub(super) fn server_id(&self) -> u32 {
        self.server.id()
    }

    pub(super) fn server_log(&self) -> String {
        self.server.log()
    }

    /// Starts another server on the same etcd, which must be refused.
    pub(super) async fn second_server(&self, programs: &Programs) -> String {
        let [port, ..] = free_ports();
        let mut arguments = self.arguments.clone();
        arguments.push(format!("--secure-port={port}"));
        programs.refused("kube-apiserver", &arguments).await
    }

    pub(in crate::program) async fn kill_server(&mut self) {
        self.server.kill().await;
    }

    pub(super) async fn stop_server(&mut self) {
        let status = self.server.stop().await;
        assert!(status.success(), "{status}: {}", self.server.log());
    }

    pub(in crate::program) async fn start_server(&mut self, programs: &Programs) {
        let log = self.folder.path().join("kube-apiserver.log");
        self.server = programs.start("kube-apiserver", &self.arguments, &log);
        self.await_server().await.unwrap();
    }

    pub(super) async fn restart_server(&mut self, programs: &Programs) {
        self.stop_server().await;
        self.start_server(programs).await;
    }

    pub(super) async fn restart_etcd(&mut self, programs: &Programs) {
        assert!(self.etcd.stop().await.success());
        self.start_etcd(programs).await;
    }

    pub(in crate::program) async fn kill_etcd(&mut self) {
        self.etcd.kill().await;
    }

    /// Waits until the server keeps writes again after its etcd was started again.
    pub(in crate::program) async fn await_storage(&mut self) {
        let anonymous = self.anonymous();
        let ready = healthy(&mut self.server, &anonymous, "/livez").await;
        ready.unwrap();
    }

    pub(in crate::program) async fn start_etcd(&mut self, programs: &Programs) {
        let folder = self.folder.path();
        let etcd = start_etcd(programs, &self.etcd_arguments, folder, &self.etcd_url).await;
        self.etcd = etcd.unwrap();
    }

    /// Stops both programs, the server first.
    pub(in crate::program) async fn stop(mut self) {
        self.stop_server().await;
        assert!(self.etcd.stop().await.success());
    }
}

async fn start_etcd(
    programs: &Programs,
    arguments: &[String],
    folder: &Path,
    url: &str,
) -> Result<Process, String> {
    let mut etcd = programs.start("etcd", arguments, &folder.join("etcd.log"));
    let plain = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    healthy(&mut etcd, &plain, "/health").await?;
    Ok(etcd)
}

/// Polls until the path is answered 200. The error is the log of the program.
pub(super) async fn healthy(
    process: &mut Process,
    client: &Client,
    path: &str,
) -> Result<(), String> {
    for _ in 0..CHECKS {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        if client.request_text(request).await.is_ok() {
            return Ok(());
        }
        if process.has_ended() {
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    Err(process.log())
}

/// Returns a client of a server on loopback.
pub(super) fn client(port: u16, authority: &str, user: &serde_json::Value) -> Client {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "envtest",
        "clusters": [{"name": "envtest", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "contexts": [{"name": "envtest", "context": {"cluster": "envtest", "user": "envtest"}}],
        "users": [{"name": "envtest", "user": user}],
    });
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    // Nothing in this configuration waits: it names neither files nor programs.
    let mut config = futures::FutureExt::now_or_never(config).unwrap().unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

async fn has_flag(programs: &Programs, program: &str, flag: &str) -> bool {
    let pattern = Regex::new(&format!(r"(?m)^\s*--{flag}\b")).unwrap();
    pattern.is_match(&programs.help(program).await)
}

/// Returns ports that are free now, as envtest does.
pub(super) fn free_ports() -> [u16; 3] {
    let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, "envtest-environment");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "envtest");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn write_certificates(folder: &Path, serving: &Authority, users: &Authority) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    for name in ["apiserver", "sa-signer"] {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names.to_vec()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, serving).unwrap();
        write(&format!("{name}.crt"), &certificate.pem());
        write(&format!("{name}.key"), &key.serialize_pem());
    }
    write("client-cert-auth-ca.crt", &users.pem());
}

/// Returns the certificate and the key of a user, in PEM.
fn user(users: &Authority, name: &str, groups: &[&str]) -> (String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    for group in groups {
        params
            .distinguished_name
            .push(DnType::OrganizationName, *group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, users).unwrap();
    (certificate.pem(), key.serialize_pem())
}
