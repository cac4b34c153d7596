//! Tests a kind with two different versions on the API server of `dev`.

use std::path::Path;
use std::process::Stdio;

use http::Request;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steersman_api::kube_client::config::{KubeConfigOptions, Kubeconfig};
use steersman_api::kube_client::{Client, Config};
use steersman_testenv::eventually;
use tokio::process::Command;

use crate::cargo::steersman;

const GREETINGS: &str = "namespaces/default/greetings";

/// Renames the field of Greeting in v1, in the sources, tests and samples of a new operator.
pub(crate) fn rename_a_field(folder: &Path) {
    let field = "        pub message: String";
    let renamed = "        #[versioned(renamed(v1, from = message))]\n        pub text: String";
    for (file, before, after) in [
        ("src/api/greeting.rs", field, renamed),
        ("src/controllers/greeting.rs", "spec.message", "spec.text"),
        ("src/webhooks/greeting.rs", "spec.message", "spec.text"),
        ("tests/it/greeting.rs", "spec.message", "spec.text"),
        (
            "tests/it/greeting.rs", "        message: ", "        text: ",
        ),
        ("tests/it/explore/greeting.rs", "spec.message", "spec.text"),
        ("tests/it/greeting_webhook.rs", "spec.message", "spec.text"),
        ("config/samples/greeting_v1.yaml", "message:", "text:"),
    ] {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(before), "{file} has no {before:?}: {text}");
        std::fs::write(path, text.replace(before, after)).unwrap();
    }
}

/// Creates an object of the former version as soon as `dev` accepts it, and reads the object in both versions.
pub(crate) async fn a_first_object_has_all_fields(folder: &Path, program: &Path) {
    let mut dev = Command::from(steersman(folder));
    dev.args(["dev", "--plain", "--program"]).arg(program);
    dev.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut dev = dev.spawn().unwrap();
    let object = json!({
        "apiVersion": "example.com/v1alpha1", "kind": "Greeting",
        "metadata": {"name": "first"}, "spec": {"message": "hello"},
    });
    let send = |method, path: String, body: String| send(folder, method, path, body);
    let former = format!("/apis/example.com/v1alpha1/{GREETINGS}");
    eventually("the object is accepted", || {
        send("POST", former.clone(), object.to_string())
    })
    .await
    .unwrap();
    for (version, spec) in [
        ("v1alpha1", json!({"message": "hello"})),
        ("v1", json!({"text": "hello"})),
    ] {
        let path = format!("/apis/example.com/{version}/{GREETINGS}/first");
        // The server refuses to read the other version until the webhook converts objects.
        let read = eventually("the object is read", || {
            send("GET", path.clone(), String::new())
        });
        let read = read.await.unwrap();
        assert_eq!(read["spec"], spec);
    }
    // The operator reconciles the newest version.
    let published = "/api/v1/namespaces/default/configmaps/first";
    let published = eventually("the message is published", || {
        send("GET", published.to_owned(), String::new())
    });
    assert_eq!(published.await.unwrap()["data"]["message"], "hello");
    // The signal makes `dev` stop its operator.
    let process = Pid::from_raw(dev.id().unwrap().cast_signed()).unwrap();
    kill_process(process, Signal::INT).unwrap();
    assert!(dev.wait().await.unwrap().success());
}

/// Sends a request to the API server of `dev`. Returns the refusal of the server as the error.
async fn send(folder: &Path, method: &str, path: String, body: String) -> Result<Value, String> {
    // The kubeconfig is read for each request, because the port changes with each start.
    let kubeconfig = Kubeconfig::read_from(folder.join("target/steersman/kubeconfig"));
    let kubeconfig = kubeconfig.map_err(|error| error.to_string())?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.map_err(|error| error.to_string())?;
    let client = Client::try_from(config).map_err(|error| error.to_string())?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    let request = request.body(body.into_bytes()).unwrap();
    let answer = client.request(request).await;
    answer.map_err(|error| error.to_string())
}
