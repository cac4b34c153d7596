//! Machine: writes the kubeconfig with which kubectl and other clients find a server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The text of a kubeconfig for a server at `url` whose certificates `ca_pem` vouches for.
///
/// Cluster, user and context are all named `steersman`; the namespace is `default`. A server that
/// asks for no credential gets a token all the same, because some clients insist on having one.
pub(crate) fn text(url: &str, ca_pem: &str, token: &str) -> String {
    let authority = STANDARD.encode(ca_pem);
    format!(
        "apiVersion: v1
kind: Config
current-context: steersman
clusters:
- name: steersman
  cluster:
    server: {url}
    certificate-authority-data: {authority}
contexts:
- name: steersman
  context:
    cluster: steersman
    namespace: default
    user: steersman
users:
- name: steersman
  user:
    token: {token}
"
    )
}
