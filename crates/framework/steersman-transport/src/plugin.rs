//! Machine: prepares the input of a credential plugin (`user.exec` of a kubeconfig), and explains its failures.

use std::io::ErrorKind;

use kube_client::client::AuthError;
use kube_client::config::{ExecConfig, ExecInteractiveMode};

use crate::explain::chain;

/// The maximal number of characters of a plugin's standard error that an error quotes.
const QUOTED: usize = 1000;

/// Makes a plugin interactive only if standard input is a terminal, as in client-go. Errors quote the standard error of
/// a plugin that is not interactive.
///
/// # Errors
///
/// The problem, if the plugin requires a terminal and `terminal` is false.
pub fn settle(exec: &mut ExecConfig, terminal: bool) -> Result<(), String> {
    match exec.interactive_mode {
        _ if terminal => {}
        Some(ExecInteractiveMode::Always) => {
            return Err(format!(
                "the credential plugin {} is always interactive (interactiveMode: Always), and standard \
                 input is no terminal: use credentials that need no input",
                name(exec)
            ));
        }
        _ => exec.interactive_mode = Some(ExecInteractiveMode::Never),
    }
    Ok(())
}

/// Returns the problem with a failed plugin. The standard output is not quoted, because it may include a token.
pub(crate) fn explain(exec: &ExecConfig, error: &AuthError) -> String {
    let name = name(exec);
    match error {
        AuthError::AuthExecStart(error) => {
            let hint = match &exec.install_hint {
                Some(hint) if error.kind() == ErrorKind::NotFound => {
                    format!("; how to install it: {}", words(hint))
                }
                _ => String::new(),
            };
            format!("the credential plugin {name} cannot be run: {error}{hint}")
        }
        AuthError::AuthExecRun { out, .. } => {
            let how = match out.status.code() {
                Some(code) => format!("exited with {code}"),
                None => format!("was ended ({})", out.status),
            };
            let stderr = words(&String::from_utf8_lossy(&out.stderr));
            let said: String = stderr.chars().take(QUOTED).collect();
            let colon = if said.is_empty() { "" } else { ": " };
            format!("the credential plugin {name} {how}{colon}{said}")
        }
        AuthError::AuthExecParse(_) => format!(
            "the credential plugin {name} printed something that is no ExecCredential of \
             client.authentication.k8s.io"
        ),
        AuthError::ExecPluginFailed => gave_nothing(exec),
        other => format!("the credential plugin {name}: {}", chain(other)),
    }
}

/// Returns the problem with a plugin that printed neither a token nor a client certificate.
pub(crate) fn gave_nothing(exec: &ExecConfig) -> String {
    format!(
        "the credential plugin {} printed an ExecCredential that has neither a token nor a client \
         certificate with its key",
        name(exec)
    )
}

fn name(exec: &ExecConfig) -> String {
    format!("{:?}", exec.command.as_deref().unwrap_or_default())
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_interactive_only_at_a_terminal() {
        let exec = |mode| ExecConfig {
            interactive_mode: mode,
            ..serde_json::from_str(r#"{"command": "login"}"#).unwrap()
        };
        for mode in [None, Some(ExecInteractiveMode::IfAvailable)] {
            let mut settled = exec(mode.clone());
            settle(&mut settled, false).unwrap();
            assert_eq!(settled.interactive_mode, Some(ExecInteractiveMode::Never));
            let mut settled = exec(mode.clone());
            settle(&mut settled, true).unwrap();
            assert_eq!(settled.interactive_mode, mode);
        }
        let always = Some(ExecInteractiveMode::Always);
        let error = settle(&mut exec(always.clone()), false).unwrap_err();
        assert!(
            error.contains("\"login\"") && error.contains("terminal"),
            "{error}"
        );
        settle(&mut exec(always), true).unwrap();
    }
}
