//! The program, started in an empty home directory like by a user.

use std::process::Output;

use example_program::command::command;
use steersman_testenv::json_lines;
use tempfile::TempDir;

async fn run(arguments: &[&str]) -> Output {
    let home = TempDir::new().unwrap();
    let mut command = command(env!("CARGO_BIN_EXE_cronjob-operator"), home.path());
    command.args(arguments).output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn once_completes_jobs_on_the_embedded_server() {
    let output = run(&["--once", "--embedded"]).await;
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(
        said.contains("CronJob default/hello is Scheduled"),
        "{said}"
    );
    assert_eq!(said.matches(" was created").count(), 4, "{said}");
    assert_eq!(said.matches(" is complete").count(), 4, "{said}");
    // The history has two Jobs.
    assert!(said.contains(" is gone"), "{said}");
    assert_eq!(text(&output.stderr), "", "a quiet run logs nothing");
}

/// LOG-3.
#[tokio::test]
async fn the_program_tells_its_user_in_the_form_of_the_log() {
    let output = run(&["--once", "--embedded", "--log-format=json"]).await;
    let said = json_lines(&text(&output.stdout)).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let texts = || said.iter().filter_map(|line| line["msg"].as_str());
    assert_eq!(
        texts()
            .filter(|text| text.ends_with(" was created"))
            .count(),
        4,
        "{said:?}"
    );
}

#[tokio::test]
async fn without_a_cluster_the_embedded_server_is_named() {
    let output = run(&["--once"]).await;
    let error = text(&output.stderr);
    assert!(
        !output.status.success() && error.contains("--embedded"),
        "{error}"
    );
}

#[tokio::test]
async fn the_definition_is_printed() {
    let output = run(&["--print-crd"]).await;
    let printed = text(&output.stdout);
    assert!(printed.contains("cronjobs.batch.example.com"), "{printed}");
    assert!(
        printed.contains("x-kubernetes-preserve-unknown-fields"),
        "{printed}"
    );
}
