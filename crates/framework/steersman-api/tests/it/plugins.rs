//! Credential plugins: programs in a kubeconfig (`user.exec`) that print a token.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};
use steersman_api::{Api, ClientConfig, Error, Paging, kube_client};
use steersman_apiserver::auth::{Authorization, User};
use steersman_apiserver::{ApiServer, Serving};
use steersman_object::ListOptions;
use tempfile::TempDir;

use crate::credentials::{client_of, issuer, last_user};

/// A server, and a folder with a kubeconfig and the plugin that it names.
struct Login {
    server: ApiServer,
    serving: Serving,
    folder: TempDir,
}

impl Login {
    async fn new() -> Self {
        let server = ApiServer::builder().authorization(Authorization::Rbac);
        Self::of(server.build()).await
    }

    async fn of(server: ApiServer) -> Self {
        let serving = server.serve("127.0.0.1:0").await.unwrap();
        let folder = TempDir::new().unwrap();
        let login = Self {
            server,
            serving,
            folder,
        };
        login.write("ca.crt", login.serving.ca_pem());
        login
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Makes the plugin: a shell script that counts its runs. A shell reads the script, because a new file cannot
    /// always be executed while other threads start programs.
    fn plugin(&self, script: &str) {
        let script = format!("#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho run >> runs\n{script}\n");
        self.write("login.sh", &script);
    }

    /// Returns the part of a kubeconfig that names the plugin.
    fn exec(&self) -> String {
        format!("command: sh, args: [{:?}, now]", self.path("login.sh"))
    }

    /// Makes the plugin print the content of the file `credential`.
    fn plugin_of_file(&self) {
        self.plugin("cat credential");
    }

    /// Makes the plugin print a token.
    fn prints(&self, token: &str, expires: Option<&str>) {
        let status = json!({"token": token, "expirationTimestamp": expires});
        self.gives(&status);
    }

    /// Makes the plugin print a credential with this status.
    fn gives(&self, status: &Value) {
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        });
        self.write("credential", &credential.to_string());
    }

    fn runs(&self) -> usize {
        let runs = std::fs::read_to_string(self.path("runs")).unwrap_or_default();
        runs.lines().count()
    }

    /// Connects with a kubeconfig with paths relative to its folder.
    async fn connect(&self, exec: &str) -> ClientConfig {
        let url = self.serving.url();
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: one, \
             clusters: [{{name: here, cluster: {{server: \"{url}\", certificate-authority: ca.crt}}}}], \
             users: [{{name: me, user: {{exec: \
             {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, {exec}}}}}}}], \
             contexts: [{{name: one, context: {{cluster: here, user: me}}}}]}}"
        );
        self.write("config", &kubeconfig);
        ClientConfig::from_kubeconfig(self.path("config"))
            .await
            .unwrap()
    }

    async fn client(&self) -> kube_client::Client {
        let connection = self.connect(&self.exec()).await;
        connection.connect().await.unwrap()
    }

    /// Returns the error of making a client.
    async fn problem(&self, exec: &str) -> String {
        let connection = self.connect(exec).await;
        let Err(error) = connection.connect().await else {
            panic!("a client was made");
        };
        assert!(error.is_config(), "{error}");
        error.to_string()
    }
}

async fn list(client: &kube_client::Client) -> Result<usize, Error> {
    let api: Api<Namespace> = Api::typed(client.clone());
    let page = api.list(&ListOptions::new(), &Paging::new()).await?;
    Ok(page.items.len())
}

const PAST: Option<&str> = Some("2020-01-01T00:00:00Z");

#[tokio::test]
async fn a_plugin_runs_once_for_all_clients_and_requests() {
    let login = Login::new().await;
    login.plugin(
        "printf %s \"$KUBERNETES_EXEC_INFO\" > told; printf '%s %s' \"$1\" \"$PLACE\" > asked\n\
         cat credential",
    );
    login.prints(&login.server.add_user(User::admin()), None);
    let exec = format!("{}, env: [{{name: PLACE, value: here}}]", login.exec());
    let connection = login.connect(&exec).await;
    assert_eq!(login.runs(), 0, "making a connection runs no program");
    let client = connection.connect().await.unwrap();
    let other = connection.connect().await.unwrap();
    for client in [&client, &other, &client] {
        assert!(list(client).await.unwrap() > 0);
    }
    assert_eq!(login.runs(), 1);
    let asked = std::fs::read_to_string(login.path("asked")).unwrap();
    assert_eq!(asked, "now here");
    let info = std::fs::read_to_string(login.path("told")).unwrap();
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["apiVersion"], "client.authentication.k8s.io/v1");
    assert_eq!(info["kind"], "ExecCredential");
    assert_eq!(info["spec"]["interactive"], false);
    login.serving.stop().await;
}

#[tokio::test]
async fn a_slow_plugin_blocks_no_other_task() {
    let login = Login::new().await;
    // The limit of 10 s fails the test if the other task has no turn.
    login.plugin(
        "left=100; while ! [ -e turn ]; do left=$((left - 1)); [ $left -gt 0 ] || exit 1; sleep 0.1; done\n\
         cat credential",
    );
    login.prints(&login.server.add_user(User::admin()), None);
    let connection = login.connect(&login.exec()).await;
    let other_task = async {
        tokio::task::yield_now().await;
        login.write("turn", "");
    };
    let (client, ()) = tokio::join!(connection.connect(), other_task);
    assert!(list(&client.unwrap()).await.unwrap() > 0);
    login.serving.stop().await;
}

#[tokio::test]
async fn a_plugin_runs_again_after_its_token_has_expired() {
    let login = Login::new().await;
    login.plugin_of_file();
    login.prints("old", PAST);
    let client = login.client().await;
    login.prints(&login.server.add_user(User::admin()), PAST);
    for _ in 0..2 {
        let before = login.runs();
        assert!(list(&client).await.unwrap() > 0);
        assert!(login.runs() > before, "{before}");
    }
    login.prints(
        &login.server.add_user(User::admin()),
        Some("2999-01-01T00:00:00Z"),
    );
    assert!(list(&client).await.unwrap() > 0);
    let before = login.runs();
    assert!(list(&client).await.unwrap() > 0);
    assert_eq!(login.runs(), before, "this token is still good");
    login.serving.stop().await;
}

/// CONN-4: the token has no expiry time, or was revoked.
#[tokio::test]
async fn a_plugin_runs_again_after_a_refusal_and_the_request_is_sent_once_more() {
    let login = Login::new().await;
    login.plugin_of_file();
    login.prints("old", None);
    let client = login.client().await;
    let error = list(&client).await.unwrap_err();
    assert!(error.is_unauthorized(), "{error}");
    let sent = || login.server.requests().count(|r| r.is_for("namespaces"));
    // The token is unchanged, so the request is not sent again.
    assert_eq!((login.runs(), sent()), (2, 1));
    login.prints(&login.server.add_user(User::admin()), None);
    assert!(list(&client).await.unwrap() > 0);
    assert_eq!((login.runs(), sent()), (3, 3));
    assert!(list(&client).await.unwrap() > 0);
    assert_eq!((login.runs(), sent()), (3, 4));
    login.serving.stop().await;
}

#[tokio::test]
async fn a_plugin_that_fails_is_named_with_its_exit_code_and_standard_error() {
    let login = Login::new().await;
    login.plugin("echo s3cret; echo 'log in' >&2; echo first >&2; exit 3");
    let text = login.problem(&login.exec()).await;
    for part in [
        "\"sh\"",
        "exited with 3: log in first",
        &login.serving.url(),
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("s3cret") && !text.contains('\n'), "{text}");

    // Later, while a request waits for a token.
    login.plugin_of_file();
    login.prints("old", PAST);
    let client = login.client().await;
    login.plugin("echo s3cret; echo 'log in' >&2; exit 4");
    let text = list(&client).await.unwrap_err().to_string();
    for part in ["\"sh\"", "exited with 4: log in", &login.serving.url()] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("s3cret") && !text.contains('\n'), "{text}");
    login.serving.stop().await;
}

#[tokio::test]
async fn a_plugin_that_prints_no_credential_is_named() {
    let login = Login::new().await;
    for printed in ["s3cret: [", "[s3cret]", ""] {
        login.write("credential", printed);
        login.plugin_of_file();
        let text = login.problem(&login.exec()).await;
        assert!(text.contains("\"sh\" printed"), "{text}");
        assert!(text.contains("ExecCredential"), "{text}");
        assert!(!text.contains("s3cret") && !text.contains('\n'), "{text}");
    }
    for nothing in [json!(null), json!({}), json!({"token": null})] {
        login.gives(&nothing);
        let text = login.problem(&login.exec()).await;
        assert!(text.contains("\"sh\" printed"), "{text}");
        assert!(
            text.contains("neither a token nor a client certificate"),
            "{text}"
        );
    }
    login.serving.stop().await;
}

#[tokio::test]
async fn the_client_certificate_of_a_plugin_is_presented() {
    let authority = issuer("clients");
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .client_authorities(authority.pem())
        .build();
    let login = Login::of(server).await;
    let (certificate, key) = client_of(&authority, "alice");
    login.gives(&json!({"clientCertificateData": certificate, "clientKeyData": key}));
    login.plugin_of_file();
    let client = login.client().await;
    assert!(list(&client).await.unwrap() > 0);
    assert_eq!(last_user(&login.server), "alice");
    login.serving.stop().await;
}

#[tokio::test]
async fn a_missing_plugin_is_an_error_with_its_install_hint() {
    let login = Login::new().await;
    let text = login
        .problem("command: no-such-login-program, installHint: \"brew install\\n  login\"")
        .await;
    assert!(
        text.contains("\"no-such-login-program\" cannot be run"),
        "{text}"
    );
    assert!(
        text.contains("how to install it: brew install login"),
        "{text}"
    );
    assert!(!text.contains('\n'), "{text}");
    login.serving.stop().await;
}
