//! Tests of the protection: other sites, markup in objects, other machines, and what the page loads.

use serde_json::json;
use steersman_apiserver::Error;

use super::{get, html, post as submit, send, serve};
use crate::support::{CONFIG_MAPS, post, server};

#[tokio::test(start_paused = true)]
async fn pages_of_other_sites_neither_read_nor_write() {
    let server = server();
    let page = serve(&server);
    let address = page.addr();
    let rebound = send(
        address, "GET", "/api/kinds", "host: evil.example.com\r\n", "",
    );
    assert_eq!(rebound.status, 403, "{}", rebound.body);
    let token = html(&page, "/faults");
    let token = token.split("name=\"token\" value=\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap();
    assert!(token.len() >= 32, "{token}");
    let form = format!("effect=swallow&token={token}");
    let host = format!("host: {address}\r\n");
    for (headers, form) in [
        (
            format!("{host}origin: http://evil.example.com\r\n"),
            form.as_str(),
        ),
        (format!("{host}origin: null\r\n"), form.as_str()),
        (
            format!("{host}sec-fetch-site: cross-site\r\n"),
            form.as_str(),
        ),
        (host.clone(), "effect=swallow"),
        (host.clone(), "effect=swallow&token=guess"),
        (String::new(), form.as_str()),
    ] {
        let answer = send(address, "POST", "/faults", &headers, form);
        assert!(
            [400, 403].contains(&answer.status),
            "{headers}: {}",
            answer.status
        );
    }
    for path in [
        "/faults?effect=swallow", "/faults/remove?id=all", "/watches?do=cut",
    ] {
        get(&page, path);
    }
    for method in ["PUT", "DELETE", "OPTIONS"] {
        assert_eq!(
            send(address, method, "/faults", &host, "").status,
            405,
            "{method}"
        );
    }
    assert_eq!(server.faults().planned(), []);
    let large = format!("effect=swallow&name={}", "x".repeat(70_000));
    assert_eq!(submit(&page, "/faults", &large).status, 413);
}

#[tokio::test(start_paused = true)]
async fn texts_of_objects_and_requests_are_no_markup() {
    let server = server();
    let page = serve(&server);
    let bad = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";
    let body = json!({"metadata": {"name": "a", "annotations": {"a": bad}}, "data": {"x": bad}});
    post(&server, CONFIG_MAPS, &body).await.expect(201);
    let headers = [("user-agent", bad)];
    crate::support::ask(
        &server,
        "GET",
        &format!("{CONFIG_MAPS}/a?x={}", "%3Cscript%3E"),
        &headers,
        "",
    )
    .await;
    for path in [
        "/objects/configmaps",
        "/objects/configmaps/default/a",
        "/changes",
        "/requests",
        "/requests/1",
        "/requests?text=%3Cscript%3E&client=%22%3E%3Cimg",
        "/faults?resource=%22%3E%3Cimg&effect=%3Cscript%3E",
        "/objects/configmaps?name=%22%3E%3Cimg",
    ] {
        let shown = html(&page, path);
        // The page has one script, and no image.
        assert_eq!(shown.matches("<script").count(), 1, "{path}");
        assert!(!shown.contains("<img"), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_loads_only_small_files_of_its_own_server() {
    let server = server();
    let page = serve(&server);
    let files: usize = ["/page.css", "/page.js", "/icon.svg"]
        .map(|path| get(&page, path).body.len())
        .iter()
        .sum();
    for path in [
        "/",
        "/changes",
        "/requests",
        "/faults",
        "/objects/namespaces",
        "/objects/namespaces/_/default",
    ] {
        let answer = get(&page, path);
        let policy =
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';";
        assert!(answer.head.contains(policy), "{}", answer.head);
        assert!(
            answer.head.contains("x-content-type-options: nosniff"),
            "{}",
            answer.head
        );
        for start in ["src=\"", "href=\"", "action=\""] {
            for link in answer.body.split(start).skip(1) {
                assert!(
                    link.starts_with('/') || link.starts_with('#'),
                    "{path}: {start}{}",
                    &link[..40]
                );
                assert!(!link.starts_with("//"), "{path}");
            }
        }
        let size = files + answer.body.len();
        assert!(size <= 60_000, "{path} and its files have {size} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_is_on_loopback_alone_and_ends_with_its_handle() {
    let server = server();
    let error = server.serve_ui("0.0.0.0:0").unwrap_err();
    assert!(matches!(error, Error::PageNotLoopback { .. }), "{error}");
    let page = serve(&server);
    let taken = server.serve_ui(page.addr()).unwrap_err();
    assert!(
        taken.to_string().contains(&page.addr().to_string()),
        "{taken}"
    );
    let address = page.addr();
    assert!(page.url().starts_with("http://127.0.0.1:"));
    drop(page);
    // The thread of the page ends soon after the handle.
    while std::net::TcpStream::connect(address).is_ok() {
        std::thread::yield_now();
    }
}
