//! Driver: measures the start of etcd and kube-apiserver as Go's envtest starts them.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::process::{BenchResult, repeat};
use crate::report::{Figure, Spread};
use crate::wire::ServerAddress;

/// The interval between two health checks of envtest.
const POLL: Duration = Duration::from_millis(100);
/// The number of failed health checks after which a start has failed.
const CHECKS: u32 = 100;

/// A folder with the program under both names.
struct Programs(TempDir);

impl Programs {
    fn of(program: &Path) -> BenchResult<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["etcd", "kube-apiserver"] {
            fs::copy(program, folder.path().join(name))?;
        }
        Ok(Self(folder))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.0.path().join(name));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Asks for the flags of a program, as envtest does before each start.
    async fn help(&self, name: &str) -> BenchResult<()> {
        let status = self.command(name).arg("--help").status().await?;
        if status.success() {
            return Ok(());
        }
        Err(format!("{name} --help ended with {status}").into())
    }
}

pub(super) async fn start(program: &Path, runs: u32) -> BenchResult<Vec<Figure>> {
    let programs = Programs::of(program)?;
    let start = async || start_once(&programs).await;
    let times = repeat(runs, "a start as by envtest", start).await?;
    let what = "time in which etcd and kube-apiserver start as by Go's envtest, which checks each of them every 100 ms";
    let figure = Figure::new("server/program/environment", what, "s", Spread::of(times));
    Ok(vec![figure.at_most(0.3)])
}

/// Returns the time of a start, in seconds.
async fn start_once(programs: &Programs) -> BenchResult<f64> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    let [client, peer, port] = free_ports()?;
    let began = Instant::now();
    programs.help("etcd").await?;
    let url = format!("http://127.0.0.1:{client}");
    let _etcd = programs
        .command("etcd")
        .arg(format!("--advertise-client-urls={url}"))
        .arg(format!("--data-dir={}", file("etcd").display()))
        .arg(format!("--listen-client-urls={url}"))
        .arg(format!("--listen-peer-urls=http://localhost:{peer}"))
        .arg("--unsafe-no-fsync=true")
        .spawn()?;
    poll(|| check_etcd(client)).await?;
    let authority = write_certificates(&file)?;
    programs.help("kube-apiserver").await?;
    let _server = serve(programs, &file, &url, port)?;
    let place = ServerAddress {
        address: format!("127.0.0.1:{port}"),
        ca_pem: authority,
    };
    poll(|| place.check("/healthz")).await?;
    Ok(began.elapsed().as_secs_f64())
}

fn serve(
    programs: &Programs,
    file: &impl Fn(&str) -> PathBuf,
    etcd: &str,
    port: u16,
) -> BenchResult<Child> {
    let mut command = programs.command("kube-apiserver");
    for (flag, name) in [
        ("client-ca-file", "users.crt"),
        ("service-account-key-file", "apiserver.crt"),
        ("service-account-signing-key-file", "apiserver.key"),
        ("cert-dir", "."),
    ] {
        command.arg(format!("--{flag}={}", file(name).display()));
    }
    let child = command
        .args(["--allow-privileged=true", "--authorization-mode=RBAC"])
        .args([
            "--bind-address=127.0.0.1",
            "--disable-admission-plugins=ServiceAccount",
        ])
        .args(["--service-cluster-ip-range=10.0.0.0/24"])
        .arg(format!("--etcd-servers={etcd}"))
        .arg(format!("--secure-port={port}"))
        .arg(format!(
            "--service-account-issuer=https://127.0.0.1:{port}/"
        ))
        .spawn()?;
    Ok(child)
}

/// Checks at once and then at each interval, as envtest does.
async fn poll<F: Future<Output = BenchResult<()>>>(
    mut check: impl FnMut() -> F,
) -> BenchResult<()> {
    for _ in 0..CHECKS {
        // An error means that the program does not listen yet, or is not healthy yet.
        if check().await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    Err("a program did not become healthy".into())
}

async fn check_etcd(port: u16) -> BenchResult<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    let is_healthy = answer.starts_with("HTTP/1.1 200 ");
    is_healthy.then_some(()).ok_or_else(|| answer.into())
}

/// Writes the certificates that envtest makes for each start, and returns the authority of the server.
fn write_certificates(file: &impl Fn(&str) -> PathBuf) -> BenchResult<String> {
    let [serving, users] = [authority()?, authority()?];
    let key = KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names)?.signed_by(&key, &serving)?;
    fs::write(file("apiserver.crt"), certificate.pem())?;
    fs::write(file("apiserver.key"), key.serialize_pem())?;
    fs::write(file("users.crt"), users.pem())?;
    Ok(serving.pem())
}

fn authority() -> BenchResult<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

/// Returns ports that are free now, as envtest does.
fn free_ports() -> BenchResult<[u16; 3]> {
    let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(held) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}
