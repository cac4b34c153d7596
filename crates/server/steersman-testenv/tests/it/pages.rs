//! Tests of the page that `STEERSMAN_UI` asks for. A variable is one of a whole process, so each test runs itself again
//! with the variable.

use std::future::ready;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use steersman_testenv::{TestEnv, eventually_within};

/// Says to a test that it runs in a process of its own.
const AGAIN: &str = "STEERSMAN_UI_TEST_RUNS_AGAIN";

fn runs_again() -> bool {
    std::env::var_os(AGAIN).is_some()
}

/// A test of this file in a process of its own, as a developer runs it.
struct Again {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Again {
    fn run(test: &str, variable: &str) -> Self {
        let mut child = again(test, variable);
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the next printed lines up to one with the address of a page, and that address.
    fn address(&mut self) -> (String, String) {
        let mut said = String::new();
        for line in &mut self.lines {
            let line = line.unwrap();
            said.push_str(&line);
            if let Some((_, address)) = line.split_once("the server's page: http://") {
                return (said, address.to_owned());
            }
        }
        panic!("no address in: {said}");
    }
}

fn again(test: &str, variable: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("pages::{test}")])
        .env(AGAIN, "yes")
        .env("STEERSMAN_UI", variable)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

async fn wait_in_vain() {
    let env = TestEnv::in_process();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "here"}});
    env.server().unwrap().create(map).unwrap();
    let never = || ready(Err::<(), _>("nothing".to_owned()));
    let waited = eventually_within(Duration::from_secs(60), "a miracle", never);
    waited.await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_prints_the_address_of_the_page() {
    if runs_again() {
        return wait_in_vain().await;
    }
    let mut test = Again::run("a_long_wait_prints_the_address_of_the_page", "1");
    let (said, _) = test.address();
    assert!(said.contains("a miracle is awaited since 5s"), "{said}");
    let (said, _) = test.address();
    assert!(
        said.contains("a miracle did not come true within 60s"),
        "{said}"
    );
    assert!(
        test.child.wait().unwrap().success(),
        "the wait ends as usual"
    );
}

#[tokio::test(start_paused = true)]
async fn a_held_test_can_be_looked_at() {
    if runs_again() {
        return wait_in_vain().await;
    }
    let mut test = Again::run("a_held_test_can_be_looked_at", "hold");
    // The first address is printed while the wait lasts, the second when it has failed.
    let (_, first) = test.address();
    let (said, second) = test.address();
    assert!(said.contains("the test is held"), "{said}");
    assert_eq!(first, second);
    let answer = get(&second, "/api/objects/configmaps/default/here");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(test.child.try_wait().unwrap().is_none(), "the test is held");
    test.child.kill().unwrap();
    test.child.wait().unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_the_variable_there_is_no_page() {
    if runs_again() {
        return wait_in_vain().await;
    }
    let child = again("without_the_variable_there_is_no_page", "");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("page"), "{said}");
}
