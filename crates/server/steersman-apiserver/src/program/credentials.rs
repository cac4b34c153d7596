//! Driver: the credentials in a data directory, which outlive the program so that kubeconfigs stay valid.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::KeyPair;

use super::flag_file::{FlagFile, write_file};
use super::problem::Outcome;

const AUTHORITY_KEY: &str = "ca.key";
const TOKEN: &str = "admin.token";
/// The size of a token before its encoding, in bytes.
const TOKEN_BYTES: usize = 24;

pub(crate) struct Credentials {
    pub(crate) authority_key: String,
    /// The token of the user with all permissions.
    pub(crate) token: String,
}

impl Credentials {
    /// Reads the credentials of a folder, and generates those that are missing (SRV-DATA-2).
    pub(crate) fn of(folder: &Path) -> Outcome<Self> {
        let key_path = folder.join(AUTHORITY_KEY);
        let authority_key = kept(&key_path, || {
            let key = KeyPair::generate().map_err(io::Error::other)?;
            Ok(key.serialize_pem())
        })?;
        // Checks the key here, so that the error names the file.
        KeyPair::from_pem(&authority_key).map_err(|error| {
            let why = format!("{error}; remove the file to get a new authority");
            FlagFile::new("--data-dir", &key_path).problem(why)
        })?;
        let token = kept(&folder.join(TOKEN), new_token)?;
        Ok(Self {
            authority_key,
            token: token.trim().to_owned(),
        })
    }
}

fn kept(path: &Path, generate: impl FnOnce() -> io::Result<String>) -> Outcome<String> {
    let file = FlagFile::new("--data-dir", path);
    if path.exists() {
        let text = file.text()?;
        // Refuses an empty file, because an empty token would authenticate no user.
        return match text.trim().is_empty() {
            false => Ok(text),
            true => Err(file.problem("it is empty; remove it to get a new one")),
        };
    }
    let text = generate().map_err(|error| file.problem(error))?;
    write_file(path, &text, 0o600).map_err(|error| file.problem(error))?;
    Ok(text)
}

fn new_token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    let random = rustls::crypto::ring::default_provider().secure_random;
    let filled = random.fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the operating system gives no random bytes"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
