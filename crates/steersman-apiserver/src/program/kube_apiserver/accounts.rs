//! Driver: the keys that sign and verify tokens of ServiceAccounts.

use std::path::Path;

use steersman_apiserver::ApiServerBuilder;

use super::options::AccountOptions;
use crate::program::problem::Problem;
use crate::program::seed::read;

/// Sets issuers, audiences and keys.
///
/// # Errors
/// A file that cannot be read, or without a key.
pub(super) fn configure(
    mut builder: ApiServerBuilder,
    options: &AccountOptions,
) -> Result<ApiServerBuilder, Problem> {
    for issuer in &options.issuers {
        builder = builder.service_account_issuer(issuer);
    }
    for path in &options.keys {
        builder = builder.service_account_keys(key(path, "service-account-key-file")?);
    }
    if let Some(path) = &options.signing_key {
        let key = key(path, "service-account-signing-key-file")?;
        builder = builder.service_account_signing_key(key);
    }
    if !options.audiences.is_empty() {
        builder = builder.api_audiences(options.audiences.iter().cloned());
    }
    if let Some(url) = &options.jwks_uri {
        builder = builder.service_account_jwks_uri(url);
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
