//! Driver: the keys that sign and verify tokens of ServiceAccounts.

use steersman_apiserver::ApiServerBuilder;

use super::options::AccountOptions;
use crate::program::flag_file::FlagFile;
use crate::program::problem::ProgramProblem;

/// Sets issuers, audiences and keys.
///
/// # Errors
/// A file that cannot be read, or without a key.
pub(super) fn configure(
    mut builder: ApiServerBuilder,
    options: &AccountOptions,
) -> Result<ApiServerBuilder, ProgramProblem> {
    for issuer in &options.issuers {
        builder = builder.service_account_issuer(issuer);
    }
    for path in &options.keys {
        let file = FlagFile::new("--service-account-key-file", path);
        builder = builder.service_account_keys(file.verifying_keys()?);
    }
    if let Some(path) = &options.signing_key {
        let file = FlagFile::new("--service-account-signing-key-file", path);
        builder = builder.service_account_signing_key(file.signing_key()?);
    }
    if !options.audiences.is_empty() {
        builder = builder.api_audiences(options.audiences.iter().cloned());
    }
    if let Some(url) = &options.jwks_uri {
        builder = builder.service_account_jwks_uri(url);
    }
    Ok(builder.service_account_extend_token_expiration(options.extends_projected))
}
