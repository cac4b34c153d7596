//! Machine: reads the settings of the export from options and the standard variables of OpenTelemetry.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use percent_encoding::percent_decode_str;

use crate::error::Error;

/// The settings of the export, after options and variables were read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExportSettings {
    /// The address to which spans are sent, with its path.
    pub(crate) endpoint: Uri,
    /// The headers of each request to the collector. They may hold credentials.
    pub(crate) headers: HashMap<String, String>,
    /// The time limit of one export, with its repetitions.
    pub(crate) timeout: Duration,
    /// The file with the authorities of a collector with HTTPS; `None` for those of the system.
    pub(crate) certificate: Option<PathBuf>,
    /// The share of exported traces, from 0 to 1.
    pub(crate) sample_ratio: f64,
    /// The attributes of the process, with the name of the service.
    pub(crate) resource: Vec<(String, String)>,
}

/// The settings that a program sets itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenSettings {
    pub(crate) endpoint: Option<String>,
    pub(crate) sample_ratio: Option<f64>,
    pub(crate) service_name: String,
    pub(crate) service_version: Option<String>,
}

/// The environment, as a function that tests replace.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The endpoint of a collector on this machine, which `OTEL_TRACES_EXPORTER=otlp` uses if no endpoint is named.
const LOCAL: &str = "http://localhost:4318";
/// The path of traces at a collector.
const TRACES_PATH: &str = "/v1/traces";
/// The default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What is wrong with another share.
const SHARE: &str = "it is a number from 0 to 1";

impl ExportSettings {
    /// Returns the address of the collector for logs, without a user and a password.
    pub(crate) fn address(&self) -> String {
        let scheme = self.endpoint.scheme_str().unwrap_or_default();
        let authority = self.endpoint.authority().map_or("", Authority::as_str);
        let host = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        format!("{scheme}://{host}")
    }
}

/// Returns the settings of the export; `None` if the variables turn the export off, or nothing names a collector.
pub(crate) fn settings(
    given: &GivenSettings,
    variables: Variables<'_>,
) -> Result<Option<ExportSettings>, Error> {
    let is_disabled = text(variables, "OTEL_SDK_DISABLED")?;
    if is_disabled.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let exporter = text(variables, "OTEL_TRACES_EXPORTER")?;
    let is_local = match exporter.as_deref() {
        None => false,
        Some("otlp") => true,
        Some("none") => return Ok(None),
        Some(other) => {
            let problem = "the allowed values are otlp and none";
            return Err(Error::value("OTEL_TRACES_EXPORTER", other, problem));
        }
    };
    let Some(endpoint) = endpoint(given, variables, is_local)? else {
        return Ok(None);
    };
    check_protocol(variables)?;
    let certificate = of_traces(variables, "CERTIFICATE")?;
    Ok(Some(ExportSettings {
        endpoint,
        headers: headers(variables)?,
        timeout: timeout(variables)?,
        certificate: certificate.map(|(_, path)| PathBuf::from(path)),
        sample_ratio: sample_ratio(given, variables)?,
        resource: resource(given, variables)?,
    }))
}

/// Returns the value of a variable without white space around it; an empty value counts as absent.
fn text(variables: Variables<'_>, name: &str) -> Result<Option<String>, Error> {
    let Some(value) = variables(name) else {
        return Ok(None);
    };
    match value.into_string() {
        Ok(value) => Ok(Some(value.trim().to_owned()).filter(|value| !value.is_empty())),
        Err(_) => Err(Error::NotUtf8 {
            variable: name.to_owned(),
        }),
    }
}

/// Returns the name and the value of a variable of the exporter: the one for traces alone goes before the one for all
/// signals.
fn of_traces(variables: Variables<'_>, name: &str) -> Result<Option<(String, String)>, Error> {
    for prefix in ["OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"] {
        let name = format!("{prefix}{name}");
        if let Some(value) = text(variables, &name)? {
            return Ok(Some((name, value)));
        }
    }
    Ok(None)
}

fn endpoint(
    given: &GivenSettings,
    variables: Variables<'_>,
    is_local: bool,
) -> Result<Option<Uri>, Error> {
    if let Some(base) = given.endpoint.as_deref().filter(|base| !base.is_empty()) {
        return Ok(Some(uri("the OTLP endpoint", base, true)?));
    }
    let found = of_traces(variables, "ENDPOINT")?;
    match found {
        // The endpoint for traces alone is used as it is, the one for all signals is completed.
        Some((name, value)) => {
            let is_base = name == "OTEL_EXPORTER_OTLP_ENDPOINT";
            Ok(Some(uri(&name, &value, is_base)?))
        }
        None if is_local => Ok(Some(uri("the default endpoint", LOCAL, true)?)),
        None => Ok(None),
    }
}

fn uri(setting: &str, value: &str, is_base: bool) -> Result<Uri, Error> {
    let whole = match is_base {
        true => format!("{}{TRACES_PATH}", value.trim_end_matches('/')),
        false => value.to_owned(),
    };
    let uri: Option<Uri> = whole.parse().ok();
    let is_usable =
        |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    uri.filter(is_usable).ok_or_else(|| {
        let problem =
            "write it as http://HOST:PORT or https://HOST:PORT, such as http://collector:4318";
        Error::value(setting, value, problem)
    })
}

fn check_protocol(variables: Variables<'_>) -> Result<(), Error> {
    match of_traces(variables, "PROTOCOL")? {
        Some((name, value)) if value != "http/protobuf" => {
            let problem = "only http/protobuf is built in: set it, and name the collector's port for HTTP, 4318 by default";
            Err(Error::value(&name, &value, problem))
        }
        _ => Ok(()),
    }
}

fn headers(variables: Variables<'_>) -> Result<HashMap<String, String>, Error> {
    match of_traces(variables, "HEADERS")? {
        Some((name, value)) => {
            let pairs = pairs(&value).ok_or_else(|| {
                // The value is not repeated, because it may hold a credential.
                Error::value(&name, "…", "write it as NAME=VALUE,NAME=VALUE")
            })?;
            Ok(pairs.into_iter().collect())
        }
        None => Ok(HashMap::new()),
    }
}

fn timeout(variables: Variables<'_>) -> Result<Duration, Error> {
    match of_traces(variables, "TIMEOUT")? {
        Some((name, value)) => match value.parse() {
            Ok(milliseconds) if milliseconds > 0 => Ok(Duration::from_millis(milliseconds)),
            _ => Err(Error::value(
                &name,
                &value,
                "it is a number of milliseconds",
            )),
        },
        None => Ok(TIMEOUT),
    }
}

fn sample_ratio(given: &GivenSettings, variables: Variables<'_>) -> Result<f64, Error> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    if let Some(ratio) = given.sample_ratio {
        return match is_share(ratio) {
            true => Ok(ratio),
            false => Err(Error::value("the sample ratio", &ratio.to_string(), SHARE)),
        };
    }
    match text(variables, SAMPLER)?.as_deref() {
        None | Some("always_on" | "parentbased_always_on") => Ok(1.0),
        Some("always_off" | "parentbased_always_off") => Ok(0.0),
        Some("traceidratio" | "parentbased_traceidratio") => match text(variables, ARGUMENT)? {
            None => Ok(1.0),
            Some(value) => {
                let ratio = value.parse().ok().filter(|ratio| is_share(*ratio));
                ratio.ok_or_else(|| Error::value(ARGUMENT, &value, SHARE))
            }
        },
        Some(other) => {
            let problem = "the allowed values are always_on, always_off, traceidratio, parentbased_always_on, \
                           parentbased_always_off and parentbased_traceidratio";
            Err(Error::value(SAMPLER, other, problem))
        }
    }
}

fn is_share(ratio: f64) -> bool {
    (0.0..=1.0).contains(&ratio)
}

/// Returns the attributes of the process. The name of the service is from `OTEL_SERVICE_NAME`, else from
/// `OTEL_RESOURCE_ATTRIBUTES`, else that of the program.
fn resource(
    given: &GivenSettings,
    variables: Variables<'_>,
) -> Result<Vec<(String, String)>, Error> {
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    const NAME: &str = "service.name";
    let listed = text(variables, ATTRIBUTES)?;
    let mut all = match &listed {
        Some(value) => pairs(value)
            .ok_or_else(|| Error::value(ATTRIBUTES, value, "write it as NAME=VALUE,NAME=VALUE"))?,
        None => Vec::new(),
    };
    if let Some(name) = text(variables, "OTEL_SERVICE_NAME")? {
        all.retain(|(key, _)| key != NAME);
        all.push((NAME.to_owned(), name));
    }
    let mut add = |key: &str, value: &str| {
        if !all.iter().any(|(known, _)| known == key) {
            all.push((key.to_owned(), value.to_owned()));
        }
    };
    add(NAME, &given.service_name);
    if let Some(version) = &given.service_version {
        add("service.version", version);
    }
    Ok(all)
}

/// Parses a list such as `a=1,b=2`, with values in the encoding of URLs; `None` if an item has no name or no `=`.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let items = text.split(',').map(str::trim);
    let items = items.filter(|item| !item.is_empty());
    items
        .map(|item| {
            let (key, value) = item.split_once('=')?;
            let key = key.trim();
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            (!key.is_empty()).then(|| (key.to_owned(), value.into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests;
