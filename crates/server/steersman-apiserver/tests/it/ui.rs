//! Tests of the server's page over HTTP: a client of blocking sockets asks the page, which has a thread of its own, so
//! the clock of a test may be paused.

mod browser;
mod faults;
mod history;
mod pages;
mod protection;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use steersman_apiserver::{ApiServer, UiServing};

/// Longer than any answer takes; only a failing test waits this long.
const TOO_LONG: Duration = Duration::from_secs(60);

/// An answer of the page.
#[derive(Debug)]
struct PageAnswer {
    status: u16,
    /// The headers, in lower case.
    head: String,
    body: String,
}

fn serve(server: &ApiServer) -> UiServing {
    server.serve_ui("127.0.0.1:0").unwrap()
}

/// Sends a request with these headers, and reads the whole answer.
fn send(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> PageAnswer {
    let mut socket = connect(address);
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    PageAnswer {
        status,
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(TOO_LONG)).unwrap();
    socket
}

fn get(page: &UiServing, path: &str) -> PageAnswer {
    let host = format!("host: {}\r\n", page.addr());
    send(page.addr(), "GET", path, &host, "")
}

fn html(page: &UiServing, path: &str) -> String {
    let answer = get(page, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    assert!(answer.head.contains("content-type: text/html"), "{path}");
    answer.body
}

fn json(page: &UiServing, path: &str) -> Value {
    let answer = get(page, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Sends a form as the page itself does, with the token that the page has.
fn post(page: &UiServing, path: &str, form: &str) -> PageAnswer {
    let faults = html(page, "/faults");
    let token = faults.split("name=\"token\" value=\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap();
    let address = page.addr();
    let headers = format!(
        "host: {address}\r\norigin: http://{address}\r\nsec-fetch-site: same-origin\r\n\
         content-type: application/x-www-form-urlencoded\r\n"
    );
    send(
        address,
        "POST",
        path,
        &headers,
        &format!("{form}&token={token}"),
    )
}
