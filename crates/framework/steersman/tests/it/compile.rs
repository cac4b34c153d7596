//! The compiler's messages for types that do not fit: each message of `diagnostic::on_unimplemented`.
//!
//! A case is compiled against the library that this test is linked with, so that nothing is built for it. Its lines
//! `//~ TEXT` are what the compiler must say.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn types_that_do_not_fit_are_refused_with_the_remedy() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/compile");
    let mut cases: Vec<PathBuf> = entries(&folder).collect();
    cases.sort();
    assert!(!cases.is_empty());
    let library = library();
    for case in cases {
        let source = fs::read_to_string(&case).unwrap();
        let said = refusal(&case, &library);
        let mut expected = source.lines().filter_map(|line| line.strip_prefix("//~ "));
        let missing = expected.find(|text| !said.contains(text));
        assert_eq!(missing, None, "{}: {said}", case.display());
        // Of its own mistakes a case would only have another code.
        let mut errors = said.lines().filter(|line| line.starts_with("error["));
        let is_of_a_bound = errors.all(|line| line.starts_with("error[E0277]"));
        assert!(is_of_a_bound, "{}: {said}", case.display());
    }
}

/// Compiles a case, and returns what the compiler says.
fn refusal(case: &Path, library: &Path) -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let [mut dependencies, mut of_case] = ["dependency=", "steersman="].map(OsString::from);
    dependencies.push(library.parent().unwrap());
    of_case.push(library);
    let output = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "bin"])
        .args(["--emit", "metadata", "--color", "never", "-o", "-", "-L"])
        .arg(dependencies)
        .arg("--extern")
        .arg(of_case)
        .arg(case)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success(), "{} compiles", case.display());
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the library that cargo built for this test: the newest one, because other choices of features leave others.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let built = entries(program.parent().unwrap()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libsteersman-") && name.ends_with(".rlib")
    });
    let age = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    built.max_by_key(age).unwrap()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
}
