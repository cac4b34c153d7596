//! Driver: the issuers, the audiences and the keys of tokens of ServiceAccounts.

use steersman_apiserver::ApiServerBuilder;

use crate::program::command_line::CommandLine;
use crate::program::flag_file::FlagFile;
use crate::program::problem::ProgramProblem;

/// Sets what the flags say about tokens of ServiceAccounts.
///
/// # Errors
/// A file that cannot be read, or without a key.
pub(super) fn configure(
    mut builder: ApiServerBuilder,
    line: &CommandLine,
) -> Result<ApiServerBuilder, ProgramProblem> {
    for issuer in line.all("service-account-issuer") {
        builder = builder.service_account_issuer(issuer);
    }
    for path in line.all("service-account-key-file") {
        let file = FlagFile::new("--service-account-key-file", path.as_ref());
        builder = builder.service_account_keys(file.verifying_keys()?);
    }
    if let Some(path) = line.text("service-account-signing-key-file") {
        let file = FlagFile::new("--service-account-signing-key-file", path.as_ref());
        builder = builder.service_account_signing_key(file.signing_key()?);
    }
    let audiences: Vec<&str> = line.entries("api-audiences").collect();
    if !audiences.is_empty() {
        builder = builder.api_audiences(audiences);
    }
    if let Some(url) = line.text("service-account-jwks-uri") {
        builder = builder.service_account_jwks_uri(url);
    }
    let extends = line.last("service-account-extend-token-expiration") != Some("false");
    Ok(builder.service_account_extend_token_expiration(extends))
}
