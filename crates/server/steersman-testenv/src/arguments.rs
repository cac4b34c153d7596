//! Machine: the arguments of etcd and kube-apiserver, with envtest's defaults.

use std::path::Path;

/// Returns the arguments of an etcd on loopback, without syncs: its data ends with the test.
pub(crate) fn etcd(folder: &Path, client: u16, peer: u16) -> Vec<String> {
    let (client, peer) = (http(client), http(peer));
    vec![
        "--name=default".to_owned(),
        format!("--data-dir={}", folder.display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync=true".to_owned(),
    ]
}

/// Returns the arguments of a kube-apiserver; `folder` has `apiserver.crt` and `.key`, `ca.crt`, `sa.pub` and `sa.key`.
///
/// RBAC is on. ServiceAccount admission is off, because no controller creates the required
/// accounts. `more` comes last and overrides earlier arguments.
pub(crate) fn kube_apiserver(folder: &Path, port: u16, etcd: u16, more: &[String]) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut all = vec![
        format!("--etcd-servers={}", http(etcd)),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", folder.display()),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ];
    all.extend_from_slice(more);
    all
}

pub(crate) fn http(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_listens_on_loopback_only() {
        let arguments = etcd(Path::new("/tmp/e"), 2379, 2380);
        for wanted in [
            "--data-dir=/tmp/e",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--initial-cluster=default=http://127.0.0.1:2380",
            "--unsafe-no-fsync=true",
        ] {
            assert!(
                arguments.iter().any(|one| one == wanted),
                "{wanted}: {arguments:?}"
            );
        }
    }

    #[test]
    fn arguments_name_the_files_and_callers_override_them() {
        let more = ["--authorization-mode=AlwaysAllow".to_owned()];
        let arguments = kube_apiserver(Path::new("/tmp/k"), 6443, 2379, &more);
        for wanted in [
            "--etcd-servers=http://127.0.0.1:2379",
            "--secure-port=6443",
            "--tls-cert-file=/tmp/k/apiserver.crt",
            "--tls-private-key-file=/tmp/k/apiserver.key",
            "--client-ca-file=/tmp/k/ca.crt",
            "--service-account-issuer=https://127.0.0.1:6443/",
            "--service-account-key-file=/tmp/k/sa.pub",
            "--service-account-signing-key-file=/tmp/k/sa.key",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
        ] {
            assert!(
                arguments.iter().any(|one| one == wanted),
                "{wanted}: {arguments:?}"
            );
        }
        assert_eq!(arguments.last(), more.last());
    }
}
