//! Machine: writes a server's kubeconfig, and recognises kubeconfigs that it wrote.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steersman_apimachinery::yaml;

/// The name of the cluster, of the user and of the context in the kubeconfigs that servers write.
const NAME: &str = "steersman";

/// Describes the content `held` of an existing file that a kubeconfig must not overwrite; `None` if the file is empty
/// or is a kubeconfig of an embedded server.
pub(crate) fn foreign(held: &str) -> Option<String> {
    if held.trim().is_empty() {
        return None;
    }
    let read = yaml::parse(held.as_bytes()).unwrap_or_default();
    let Some(clusters) = read["clusters"].as_array() else {
        return Some("something that is no kubeconfig".to_owned());
    };
    let names = clusters.iter().filter_map(|one| one["name"].as_str());
    let others: Vec<&str> = names.filter(|name| *name != NAME).collect();
    (!others.is_empty()).then(|| format!("the way to {}", others.join(", ")))
}

/// Returns a kubeconfig for a server at `url` with the authority `ca_pem`.
///
/// Cluster, user and context are all named `steersman`; the namespace is `default`. The kubeconfig has a token even if
/// the server requires no credential, because some clients require one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_of_another_server_is_recognised() {
        let own = text("https://127.0.0.1:1", "ca", "token");
        assert_eq!(foreign(&own), None);
        assert_eq!(foreign(" \n"), None);
        let both = own.replace(
            "clusters:\n",
            "clusters:\n- name: production\n  cluster: {server: https://example.com}\n",
        );
        assert_eq!(foreign(&both).unwrap(), "the way to production");
        for other in ["fn main() {}", "a: 1", "{", "clusters: production"] {
            assert_eq!(foreign(other).unwrap(), "something that is no kubeconfig");
        }
    }
}
