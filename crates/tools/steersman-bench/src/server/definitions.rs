//! Driver: measures the program with many definitions: a second apply of all, and their memory.

use std::path::Path;

use http::Request;
use kube_client::Client;
use serde_json::Value;
use tokio::time::Instant;

use super::program::ProgramServer;
use crate::process::{BenchResult, repeat};
use crate::report::{Figure, Spread};
use crate::samples::definitions::{collections, definition, object};
use crate::wire::kube_client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[derive(Debug, Clone, Copy)]
struct Measured {
    /// The time to apply all definitions, in seconds.
    first: f64,
    /// The time to apply them once more, unchanged, in seconds.
    second: f64,
    /// The memory of a definition of which each version has objects, in kilobytes.
    in_use: f64,
}

pub(super) async fn many(program: &Path, definitions: u32, runs: u32) -> BenchResult<Vec<Figure>> {
    let what = format!("{definitions} definitions");
    let all = repeat(runs, what, async || once(program, definitions).await).await?;
    let size = definition(0).to_string().len() / 1000;
    let of =
        format!("{definitions} definitions of {size} kB with two versions, the program over HTTPS");
    let first = Spread::over(&all, |one| one.first);
    let second = Spread::over(&all, |one| 100.0 * one.second / one.first);
    let in_use = Spread::over(&all, |one| one.in_use);
    let one = format!("time to apply {of}");
    let two = "time of a second, unchanged apply of all definitions, of the time of the first";
    let three = "resident memory per definition with objects in both versions";
    Ok(vec![
        Figure::new("server/definitions/apply", one, "s", first),
        Figure::new("server/definitions/again", two, "%", second).at_most(33.3),
        Figure::new("server/definitions/in-use", three, "kB", in_use).at_most(400.0),
    ])
}

async fn once(program: &Path, definitions: u32) -> BenchResult<Measured> {
    let server = ProgramServer::start(program).await?;
    let before = server.resident()?;
    let client = kube_client(&server.kubeconfig()).await?;
    let first = apply_all(&client, definitions).await?;
    let second = apply_all(&client, definitions).await?;
    for number in 0..definitions {
        for (version, collection) in collections(number).iter().enumerate() {
            send(&client, ("POST", collection), &object(number, version)).await?;
            let list = Request::get(collection).body(Vec::new())?;
            client.request_text(list).await?;
        }
    }
    Ok(Measured {
        first,
        second,
        in_use: (server.resident()? - before) * 1e3 / f64::from(definitions),
    })
}

/// Applies all definitions, and returns the time in seconds.
async fn apply_all(client: &Client, definitions: u32) -> BenchResult<f64> {
    let mut took = 0.0;
    for number in 0..definitions {
        let definition = definition(number);
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{DEFINITIONS}/{name}?fieldManager=bench");
        let began = Instant::now();
        send(client, ("PATCH", &path), &definition).await?;
        took += began.elapsed().as_secs_f64();
    }
    Ok(took)
}

async fn send(client: &Client, (method, path): (&str, &str), body: &Value) -> BenchResult<()> {
    let media = match method {
        "PATCH" => "application/apply-patch+yaml",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, media)
        .body(serde_json::to_vec(body)?)?;
    client.request_text(request).await?;
    Ok(())
}
