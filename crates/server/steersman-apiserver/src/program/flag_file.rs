//! Driver: files and folders that flags and variables of the environment name.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::problem::{Outcome, ProgramProblem};

/// The first byte of a certificate or key in DER. The server reads only PEM, and its error names the mistake.
const DER: u8 = 0x30;

#[derive(Debug, Clone, Copy)]
pub(crate) struct FlagFile<'a> {
    /// The flag, with its dashes, or the environment variable that names the file.
    source: &'static str,
    path: &'a Path,
}

impl<'a> FlagFile<'a> {
    pub(crate) fn new(source: &'static str, path: &'a Path) -> Self {
        Self { source, path }
    }

    pub(crate) fn certificates(self) -> Outcome<String> {
        let text = self.text()?;
        let all = CertificateDer::pem_slice_iter(text.as_bytes());
        let all: Result<Vec<_>, _> = all.collect();
        match all {
            Ok(all) if all.is_empty() => Err(self.problem("it holds no certificate in PEM")),
            Ok(_) => Ok(text),
            // The error of the parser is left out, because it may quote the content of the file.
            Err(_) => Err(self.problem("it is malformed PEM")),
        }
    }

    pub(crate) fn text(self) -> Outcome<String> {
        let bytes = std::fs::read(self.path).map_err(|source| self.problem(source))?;
        let is_der = bytes.first() == Some(&DER);
        String::from_utf8(bytes).map_err(|_| {
            self.problem(if is_der {
                "it is DER; convert it to PEM, for instance with `openssl x509 -inform der`"
            } else {
                "it is no text"
            })
        })
    }

    pub(crate) fn checked(self, check: fn(&str) -> Result<(), String>) -> Outcome<String> {
        let text = self.text()?;
        check(&text).map_err(|why| self.problem(why))?;
        Ok(text)
    }

    pub(crate) fn problem(
        self,
        why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ProgramProblem {
        ProgramProblem::FlagFile {
            named_by: self.source,
            path: PathBuf::from(self.path),
            source: why.into(),
        }
    }
}

/// Writes a file under another name and renames it, so that no process reads an incomplete file.
pub(crate) fn write_file(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let next = path.with_extension(format!("{}.next", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(&next)?.write_all(text.as_bytes())?;
    std::fs::rename(&next, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::chain;
    use steersman_auth::TokenOptions;

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_flag() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("x.pem");
        let file = FlagFile::new("--client-ca-file", &path);
        let text = chain(&file.certificates().unwrap_err());
        let named = format!("cannot use {} of --client-ca-file: ", path.display());
        assert!(
            text.starts_with(&named) && text.contains("No such file"),
            "{text}"
        );
        for (content, why) in [
            (&b"\x30\x82\xff"[..], "it is DER; convert it"),
            (b"\xff\xfe", "it is no text"),
            (b"", "it holds no certificate in PEM"),
            (
                b"-----BEGIN CERTIFICATE-----\nMII!\n-----END CERTIFICATE-----\n",
                "it is malformed PEM",
            ),
        ] {
            std::fs::write(&path, content).unwrap();
            let text = chain(&file.certificates().unwrap_err());
            assert!(text.contains(&format!("{named}{why}")), "{text}");
        }
        let text = chain(&file.checked(TokenOptions::check_signing_key).unwrap_err());
        assert!(text.contains("malformed PEM"), "{text}");
        std::fs::write(&path, "").unwrap();
        let text = chain(&file.checked(TokenOptions::check_signing_key).unwrap_err());
        assert!(text.contains("the PEM text has no private key"), "{text}");
        let text = chain(&file.checked(TokenOptions::check_keys).unwrap_err());
        assert!(text.contains("the PEM text has no key"), "{text}");
    }
}
