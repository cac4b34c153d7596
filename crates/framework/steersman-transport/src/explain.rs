//! Machine: formats errors of credentials, kubeconfigs and connections on one line.

use std::error::Error;

use kube_client::config::{KubeconfigError, LoadDataError};

/// Returns an error and its causes on one line, without repetitions.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = source.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        next = source.source();
    }
    text
}

/// Returns the reason why a kubeconfig is not usable.
pub fn explain_kubeconfig(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(source, _) => format!("the file cannot be read: {source}"),
        KubeconfigError::Parse(source) => format!(
            "the file is not a kubeconfig: {}",
            without_advice(&one_line(&source.to_string()))
        ),
        KubeconfigError::LoadCertificateAuthority(source) => {
            explain_data("the certificate authority", source)
        }
        KubeconfigError::LoadClientCertificate(source) => {
            explain_data("the client certificate", source)
        }
        KubeconfigError::LoadClientKey(source) => explain_data("the client key", source),
        other => one_line(&chain(other)),
    }
}

fn explain_data(what: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::ReadFile(source, path) => {
            format!("{what} {} cannot be read: {source}", path.display())
        }
        LoadDataError::DecodeBase64(source) => format!("{what} is not base64: {source}"),
        LoadDataError::NoBase64DataOrFile => format!("{what} has neither data nor a file"),
    }
}

/// Returns the first line of a YAML error, which has the position. Other lines quote the file.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// Removes the parser's advice, which addresses authors of Rust types.
fn without_advice(text: &str) -> String {
    text.trim_start_matches("error: ")
        .replace("; use Option<String>", "")
        .replace(
            "cannot deserialize null into string",
            "there is nothing where a text belongs",
        )
}

/// Returns the problem with credentials that only the construction of a client detects.
pub fn explain_client(error: &kube_client::Error) -> String {
    match error {
        kube_client::Error::InferKubeconfig(error) => explain_kubeconfig(error),
        other => {
            let text = one_line(&chain(other));
            match text.contains("UnsupportedCertVersion") {
                true => format!(
                    "the client certificate is one of X.509 version 1, and only version 3 can be used: issue it anew with \
                     an extension, such as extendedKeyUsage=clientAuth ({text})"
                ),
                false => text,
            }
        }
    }
}
