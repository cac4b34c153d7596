//! The archive that `setup-envtest` unpacks, and the index in which it finds the archive.
//!
//! Kubernetes source: `hack/envtest` and `envtest-releases.yaml` of controller-tools; `setup-envtest` of
//! controller-runtime (`tools/setup-envtest/store`, `remote` and `versions`) reads both.

use semver::Version;

use super::file::{PackedFile, Packing};
use super::hash::{SHA512, hex};
use super::platform::Platform;
use super::tar::tar_gz;

/// The folder of the programs in archives of controller-tools. `setup-envtest` keeps only the names of the files.
const FOLDER: &str = "controller-tools/envtest";
/// The programs that envtest starts. Each is a copy, because `setup-envtest` leaves out links.
const PROGRAMS: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];

pub(super) fn archive(
    version: &str,
    platform: &Platform,
    program: &[u8],
    packing: &Packing,
) -> Result<PackedFile, String> {
    let files =
        PROGRAMS.map(|name| PackedFile::program(&format!("{FOLDER}/{name}"), program.to_vec()));
    let name = format!("envtest-{version}-{}.tar.gz", platform.name);
    Ok(PackedFile::data(&name, tar_gz(&files, packing)?))
}

pub(super) fn index(version: &str, base_url: &str, archives: &[PackedFile]) -> PackedFile {
    let base_url = base_url.trim_end_matches('/');
    let mut text = format!("releases:\n  {version}:\n");
    for archive in archives {
        let (name, hash) = (&archive.name, hex(&SHA512, &archive.bytes));
        text.push_str(&format!(
            "    {name}:\n      hash: {hash}\n      selfLink: {base_url}/{name}\n"
        ));
    }
    // The name is that of controller-tools.
    PackedFile::data("envtest-releases.yaml", text)
}

/// Checks a version of Kubernetes as `setup-envtest` reads it in names of archives.
pub(super) fn check_version(version: &str) -> Result<(), String> {
    let number = version.strip_prefix('v').map(Version::parse);
    if let Some(Ok(number)) = number
        && number.pre.is_empty()
        && number.build.is_empty()
    {
        return Ok(());
    }
    Err(format!(
        "--version is '{version}'; write it with all three numbers, for example v1.36.0"
    ))
}

/// Checks an address that `setup-envtest` can read from.
pub(super) fn check_address(base_url: &str) -> Result<(), String> {
    let is_plain = base_url
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"#'\"".contains(&byte));
    let host = base_url.strip_prefix("http://");
    let host = host.or_else(|| base_url.strip_prefix("https://"));
    if host.is_some_and(|host| !host.is_empty()) && is_plain {
        return Ok(());
    }
    Err(format!(
        "--base-url is '{base_url}'; `setup-envtest` downloads archives over HTTP only: write http:// or https:// \
         with a host"
    ))
}

#[cfg(test)]
mod tests {
    use super::{Packing, Platform, archive, check_address, check_version, index};

    #[test]
    fn an_index_names_each_archive_with_its_hash() {
        let packing = Packing {
            time: 0,
            level: flate2::Compression::fast(),
        };
        let platform = Platform::of("x86_64-unknown-linux-gnu").unwrap();
        let archive = archive("v1.36.0", &platform, b"program", &packing).unwrap();
        assert_eq!(archive.name, "envtest-v1.36.0-linux-amd64.tar.gz");
        let hash = super::hex(&super::SHA512, &archive.bytes);
        let index = index("v1.36.0", "https://example.com/a/", &[archive]);
        assert_eq!(
            String::from_utf8(index.bytes).unwrap(),
            format!(
                "releases:
  v1.36.0:
    envtest-v1.36.0-linux-amd64.tar.gz:
      hash: {hash}
      selfLink: https://example.com/a/envtest-v1.36.0-linux-amd64.tar.gz
"
            )
        );
    }

    #[test]
    fn a_version_has_three_numbers() {
        for good in ["v1.36.0", "v1.28.15"] {
            assert_eq!(check_version(good), Ok(()), "{good}");
        }
        for bad in ["1.36.0", "v1.36", "v1.36.0-rc.1", "v01.3.0", "v1..0", ""] {
            let error = check_version(bad).unwrap_err();
            assert!(error.contains(&format!("'{bad}'")), "{error}");
        }
    }

    #[test]
    fn archives_are_read_over_http() {
        for good in ["http://127.0.0.1:8000", "https://example.com/releases/"] {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in [
            "file:///a", "archives", "https://", "http://a b", "http://a\n",
        ] {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }
}
