//! The packages of a small program.

use std::path::Path;

use super::{Dist, Platform, run};

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

fn asked(folder: &Path, platform: &Platform, out: &str) -> Dist {
    let program = folder.join("program");
    std::fs::write(&program, b"#!/bin/sh\n").unwrap();
    Dist {
        version: "v1.36.0".to_owned(),
        out: folder.join(out),
        targets: vec![platform.target.to_owned()],
        // The command is run for its completions.
        command: Some("/usr/bin/true".into()),
        program: Some(program),
        base_url: "http://127.0.0.1:8000".to_owned(),
        quick: true,
    }
}

#[test]
fn the_same_program_makes_the_same_packages() {
    let Some(platform) = Platform::of_this_machine() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let root = crate::repository();
    let [first, second] = ["out", "again"].map(|out| {
        let asked = asked(folder.path(), &platform, out);
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
    let version = env!("CARGO_PKG_VERSION");
    let name = platform.name;
    let command = format!("cargo-steersman-{}-v{version}.tar.gz", platform.target);
    let mut expected = vec![
        format!("{command}.sha256"),
        command,
        "envtest-releases.yaml".to_owned(),
        format!("envtest-v1.36.0-{name}.tar.gz"),
        format!("{name}/steersman-apiserver"),
        format!(
            "steersman_apiserver-{version}-py3-none-{}.whl",
            platform.wheel_tag
        ),
    ];
    if platform.is_linux() {
        expected.push("container/Containerfile".to_owned());
        expected.push(format!("container/{name}/steersman-apiserver"));
    }
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn one_program_is_of_one_target() {
    let Some(platform) = Platform::of_this_machine() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut asked = asked(folder.path(), &platform, "out");
    asked.targets.push("aarch64-apple-darwin".to_owned());
    let error = run(Path::new("."), &asked).unwrap_err();
    assert!(error.contains("--program"), "{error}");
    assert!(!asked.out.exists());
}
