//! Driver: a real etcd and kube-apiserver, together.

use std::path::Path;
use std::time::Duration;

use kube_client::Config;
use kube_client::config::Kubeconfig;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::arguments;
use crate::backend::{Assets, ProcessOptions};
use crate::error::Error;
use crate::pki::Pki;
use crate::process::Process;
use crate::rest::{Rest, config};

/// The number of attempts to start both programs, for example if a port is taken.
const TRIES: usize = 3;

/// The two programs; a drop ends them and removes their files.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    // Fields are dropped in this order: the server needs etcd, and both need the folder.
    server: Process,
    etcd: Process,
    _folder: TempDir,
    stop: Duration,
}

impl ControlPlane {
    /// Starts both programs, waits until the server is ready, and returns the kubeconfig of the administrator.
    ///
    /// Cancel safe: started programs end.
    pub(crate) async fn start(
        assets: &Assets,
        options: ProcessOptions,
        more: &[String],
    ) -> Result<(Self, Kubeconfig), Error> {
        let mut tries = 1;
        loop {
            match Self::try_start(assets, options, more).await {
                Err(Error::Exited { .. }) if tries < TRIES => tries += 1,
                outcome => return outcome,
            }
        }
    }

    async fn try_start(
        assets: &Assets,
        options: ProcessOptions,
        more: &[String],
    ) -> Result<(Self, Kubeconfig), Error> {
        let folder = TempDir::new().map_err(file(&std::env::temp_dir()))?;
        let pki = Pki::generate()?;
        let [client, peer, port] = free_ports().await?;

        let path = folder.path();
        let data = path.join("etcd");
        let list = arguments::etcd(&data, client, peer);
        let log = path.join("etcd.log");
        let mut etcd = Process::start(&assets.etcd, &list, &log, options.attach)?;
        // The address is a valid URL.
        let plain = Config::new(arguments::http(client).parse().unwrap_or_default());
        let health = Rest::over_network(&plain).map_err(request)?;
        let look = || async { answer(&health, "/health").await };
        etcd.ready(options.start, look).await?;

        write_keys(path, &pki)?;
        let list = arguments::kube_apiserver(path, port, client, more);
        let log = path.join("kube-apiserver.log");
        let mut server = Process::start(&assets.kube_apiserver, &list, &log, options.attach)?;
        let kubeconfig = kubeconfig(&format!("https://127.0.0.1:{port}"), &pki)?;
        let rest = Rest::over_network(&config(&kubeconfig).await?).map_err(request)?;
        let look = || async {
            answer(&rest, "/readyz").await?;
            // The server creates this namespace shortly after it is ready, and tests depend on it.
            answer(&rest, "/api/v1/namespaces/default").await
        };
        server.ready(options.start, look).await?;
        let control_plane = Self {
            server,
            etcd,
            _folder: folder,
            stop: options.stop,
        };
        Ok((control_plane, kubeconfig))
    }

    /// Terminates both programs, the server first, and kills a program that does not end.
    ///
    /// Cancel safe: programs that still run are killed.
    pub(crate) async fn stop(self) {
        self.server.stop(self.stop).await;
        self.etcd.stop(self.stop).await;
    }
}

/// Returns distinct ports that are currently free.
async fn free_ports() -> Result<[u16; 3], Error> {
    let failed = |source| {
        Error::Embedded(steersman_apiserver::Error::Listen {
            address: "127.0.0.1:0".to_owned(),
            source,
        })
    };
    let mut held = Vec::new();
    let mut ports = [0; 3];
    for port in &mut ports {
        // Held until all ports are known, so that they differ.
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        *port = listener.local_addr().map_err(failed)?.port();
        held.push(listener);
    }
    Ok(ports)
}

async fn answer(rest: &Rest, path: &str) -> Result<(), String> {
    match rest.text(path).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            Err(text)
        }
    }
}

fn request(source: kube_client::Error) -> Error {
    Error::request("the creation of a client for the control plane", source)
}

fn write_keys(folder: &Path, pki: &Pki) -> Result<(), Error> {
    let files = [
        ("ca.crt", &pki.ca),
        ("apiserver.crt", &pki.server.certificate),
        ("apiserver.key", &pki.server.key),
        ("sa.pub", &pki.accounts.certificate),
        ("sa.key", &pki.accounts.key),
    ];
    for (name, text) in files {
        // The folder is readable by its owner only.
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(file(&path))?;
    }
    Ok(())
}

fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

fn kubeconfig(url: &str, pki: &Pki) -> Result<Kubeconfig, Error> {
    use base64::Engine as _;
    let data = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "testenv",
        "clusters": [{"name": "testenv", "cluster": {
            "server": url,
            "certificate-authority-data": data(&pki.ca),
        }}],
        "contexts": [{"name": "testenv", "context": {
            "cluster": "testenv", "user": "admin", "namespace": "default",
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": data(&pki.admin.certificate),
            "client-key-data": data(&pki.admin.key),
        }}],
    });
    Ok(Kubeconfig::from_yaml(&value.to_string())?)
}
