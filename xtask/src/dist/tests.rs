//! The packages of a small program.

use std::path::Path;

use super::{Dist, run};

/// Returns all files below a folder with their contents, sorted by path.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

fn asked(folder: &Path, out: &str) -> Dist {
    let program = folder.join("program");
    std::fs::write(&program, b"#!/bin/sh\n").unwrap();
    Dist {
        version: "v1.36.0".to_owned(),
        out: folder.join(out),
        targets: vec!["x86_64-unknown-linux-gnu".to_owned()],
        // The command is run for its completions.
        command: Some("/usr/bin/true".into()),
        program: Some(program),
        base_url: "http://127.0.0.1:8000".to_owned(),
        quick: true,
    }
}

#[test]
fn the_same_program_makes_the_same_packages() {
    let folder = tempfile::tempdir().unwrap();
    let root = crate::repository();
    let [first, second] = ["out", "again"].map(|out| {
        let asked = asked(folder.path(), out);
        run(&root, &asked).unwrap();
        let files = contents(&asked.out);
        let short = |(path, bytes): (String, Vec<u8>)| {
            let start = asked.out.display().to_string().len() + 1;
            (path[start..].to_owned(), bytes)
        };
        files.into_iter().map(short).collect::<Vec<_>>()
    });
    assert!(first == second, "the bytes of two runs differ");
    let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
    let wheel = format!(
        "steersman_apiserver-{}-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl",
        env!("CARGO_PKG_VERSION")
    );
    let command = format!(
        "cargo-steersman-x86_64-unknown-linux-gnu-v{}.tar.gz",
        env!("CARGO_PKG_VERSION")
    );
    let hash = format!("{command}.sha256");
    assert_eq!(
        names,
        [
            command.as_str(),
            hash.as_str(),
            "container/Containerfile",
            "container/linux-amd64/steersman-apiserver",
            "envtest-releases.yaml",
            "envtest-v1.36.0-linux-amd64.tar.gz",
            "linux-amd64/steersman-apiserver",
            wheel.as_str(),
        ]
    );
}

#[test]
fn one_program_is_of_one_target() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = asked(folder.path(), "out");
    asked.targets.push("aarch64-apple-darwin".to_owned());
    let error = run(Path::new("."), &asked).unwrap_err();
    assert!(error.contains("--program"), "{error}");
    assert!(!asked.out.exists());
}
