//! A headless Chromium, driven by the WebDriver protocol.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use base64::Engine as _;
use serde_json::{Value, json};
use steersman_testenv::eventually;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::world::soon;

pub(crate) struct Browser {
    driver: SocketAddr,
    session: String,
    _process: Child,
    /// The folder of the pictures; `None` takes none.
    pictures: Option<PathBuf>,
}

impl Browser {
    /// Starts the driver that `STEERSMAN_CHROMEDRIVER` names; without it, says that the test is skipped.
    pub(crate) async fn start() -> Option<Self> {
        let path = std::env::var_os("STEERSMAN_CHROMEDRIVER").filter(|path| !path.is_empty());
        let Some(path) = path else {
            // Not `eprintln!`, because the harness hides its output for passing tests: a skipped test is skipped aloud.
            let reason = "skipped: STEERSMAN_CHROMEDRIVER names no chromedriver; `.ci/run test` installs one\n";
            std::io::stderr().write_all(reason.as_bytes()).unwrap();
            return None;
        };
        let mut process = Command::new(path)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = loop {
            let line = soon(lines.next_line()).await.unwrap().unwrap();
            let port = line.split("successfully on port ").nth(1);
            if let Some(port) = port {
                break port.trim_end_matches('.').parse().unwrap();
            }
        };
        let mut this = Self {
            driver: SocketAddr::from(([127, 0, 0, 1], port)),
            session: String::new(),
            _process: process,
            pictures: std::env::var_os("STEERSMAN_PICTURES").map(PathBuf::from),
        };
        let dark = std::env::var_os("STEERSMAN_DARK").map(|_| "--force-dark-mode");
        let mut flags = vec![
            "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900",
        ];
        flags.extend(dark);
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": flags}, "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let made = this.post("/session", &wanted).await;
        this.session = made["sessionId"].as_str().unwrap().to_owned();
        Some(this)
    }

    pub(crate) async fn open(&self, url: &str) {
        self.send("url", &json!({ "url": url })).await;
    }

    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let rect = json!({"width": width, "height": height});
        self.send("window/rect", &rect).await;
    }

    /// Returns the value of an expression.
    pub(crate) async fn eval(&self, expression: &str) -> Value {
        let script = json!({"script": format!("return {expression}"), "args": []});
        self.send("execute/sync", &script).await
    }

    /// Waits until an expression is true.
    pub(crate) async fn until(&self, expression: &str) {
        let is_true = async || match self.eval(expression).await {
            Value::Bool(true) => Ok(()),
            _ => Err(self.eval("document.body.innerText").await.to_string()),
        };
        eventually(expression, is_true).await.unwrap();
    }

    /// Takes a picture, if `STEERSMAN_PICTURES` names a folder.
    pub(crate) async fn shot(&self, name: &str) {
        let Some(folder) = &self.pictures else {
            return;
        };
        let picture = self.exchange("GET", "screenshot", None).await;
        let picture = base64::engine::general_purpose::STANDARD.decode(picture.as_str().unwrap());
        std::fs::write(folder.join(format!("{name}.png")), picture.unwrap()).unwrap();
    }

    /// Fails if the browser has refused a part of a page, or a script has failed.
    pub(crate) async fn assert_no_complaints(&self) {
        let log = self.send("se/log", &json!({"type": "browser"})).await;
        let log = log.as_array().unwrap();
        let severe: Vec<&Value> = log
            .iter()
            .filter(|line| line["level"] == "SEVERE")
            .collect();
        assert!(severe.is_empty(), "{severe:#?}");
    }

    pub(crate) async fn end(self) {
        self.exchange("DELETE", "", None).await;
    }

    async fn send(&self, command: &str, body: &Value) -> Value {
        self.exchange("POST", command, Some(body)).await
    }

    async fn exchange(&self, method: &str, command: &str, body: Option<&Value>) -> Value {
        let path = format!("/session/{}/{command}", self.session);
        self.request(method, path.trim_end_matches('/'), body).await
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.request("POST", path, Some(body)).await
    }

    async fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            self.driver,
            body.len()
        );
        let mut stream = TcpStream::connect(self.driver).await.unwrap();
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        // The driver leaves the connection open, so the length in the head ends the answer.
        let mut stream = BufReader::new(stream);
        let (mut status, mut length) = (String::new(), 0);
        soon(stream.read_line(&mut status)).await.unwrap();
        loop {
            let mut line = String::new();
            soon(stream.read_line(&mut line)).await.unwrap();
            match line.to_ascii_lowercase().trim().split_once(':') {
                Some(("content-length", many)) => length = many.trim().parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        soon(stream.read_exact(&mut body)).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        assert!(status.contains(" 200 "), "{method} {path}: {body}");
        let mut answer: Value = serde_json::from_str(&body).unwrap();
        answer["value"].take()
    }
}
