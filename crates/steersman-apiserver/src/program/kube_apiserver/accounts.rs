//! Driver: the keys that sign and verify tokens of ServiceAccounts.

use std::path::Path;

use steersman_apiserver::ApiServerBuilder;

use super::options::AccountOptions;
use crate::program::problem::Problem;
use crate::program::seed::read;

/// Sets issuers and keys.
///
/// # Errors
/// A file that cannot be read, or without a key.
pub(super) fn configure(
    builder: ApiServerBuilder,
    options: &AccountOptions,
) -> Result<ApiServerBuilder, Problem> {
    for path in &options.keys {
        key(path, "service-account-key-file")?;
    }
    if let Some(path) = &options.signing_key {
        key(path, "service-account-signing-key-file")?;
    }
    Ok(builder)
}

fn key(path: &Path, flag: &'static str) -> Result<String, Problem> {
    let text = read(path)?;
    if text.contains("-----BEGIN") {
        return Ok(text);
    }
    let path = path.to_owned();
    Err(Problem::NoKey { flag, path })
}
