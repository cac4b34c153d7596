//! Which option or variable decides, and the errors of wrong values.

use super::*;

type VariableList = [(&'static str, &'static str)];

fn read(
    given: &GivenSettings,
    variables: &[(&str, &str)],
) -> Result<Option<ExportSettings>, String> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    settings(given, &variable).map_err(|error| error.to_string())
}

fn program() -> GivenSettings {
    GivenSettings {
        service_name: "greeter".to_owned(),
        service_version: Some("1.2.3".to_owned()),
        ..GivenSettings::default()
    }
}

#[test]
fn the_endpoint_of_the_program_goes_before_the_variables_and_is_completed() {
    const BOTH: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let endpoint = |given: Option<&str>, variables: &[(&str, &str)]| {
        let mut settings = program();
        settings.endpoint = given.map(str::to_owned);
        let found = read(&settings, variables).unwrap();
        found.map(|found| found.endpoint.to_string())
    };
    let table: [(_, &VariableList, _); 8] = [
        (None, &[], None),
        (Some("http://a:4318"), &[], Some("http://a:4318/v1/traces")),
        (
            Some("https://a/x/"),
            &[(BOTH, "http://b:1")],
            Some("https://a/x/v1/traces"),
        ),
        (None, &[(BOTH, "http://b:1/")], Some("http://b:1/v1/traces")),
        (
            None,
            &[(BOTH, "http://b:1"), (TRACES, "http://c:2/as-is")],
            Some("http://c:2/as-is"),
        ),
        (None, &[(BOTH, " ")], None),
        (
            None,
            &[("OTEL_TRACES_EXPORTER", "otlp")],
            Some("http://localhost:4318/v1/traces"),
        ),
        (
            Some("http://a:1"),
            &[("OTEL_TRACES_EXPORTER", "none")],
            None,
        ),
    ];
    for (given, variables, expected) in table {
        assert_eq!(
            endpoint(given, variables).as_deref(),
            expected,
            "{given:?} {variables:?}"
        );
    }
    let off = [(BOTH, "http://b:1"), ("OTEL_SDK_DISABLED", "True")];
    assert_eq!(endpoint(None, &off), None);
}

#[test]
fn the_ratio_of_the_program_goes_before_the_sampler() {
    let ratio = |given, sampler, argument| {
        let mut settings = program();
        settings.endpoint = Some("http://a:1".to_owned());
        settings.sample_ratio = given;
        let variables = [
            ("OTEL_TRACES_SAMPLER", sampler),
            ("OTEL_TRACES_SAMPLER_ARG", argument),
        ];
        read(&settings, &variables).unwrap().unwrap().sample_ratio
    };
    assert_eq!(ratio(None, "", ""), 1.0);
    assert_eq!(ratio(Some(0.25), "always_on", ""), 0.25);
    assert_eq!(ratio(None, "parentbased_always_off", "0.5"), 0.0);
    assert_eq!(ratio(None, "traceidratio", "0.5"), 0.5);
    assert_eq!(ratio(None, "parentbased_traceidratio", "0.01"), 0.01);
    assert_eq!(ratio(None, "parentbased_traceidratio", ""), 1.0);
}

#[test]
fn headers_and_resource_attributes_are_decoded() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20a%3Db, x-team = web",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.crt"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "k8s.namespace.name=web,service.name=other",
        ),
    ];
    let found = read(&program(), &variables).unwrap().unwrap();
    let expected = [("authorization", "Bearer a=b"), ("x-team", "web")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(found.headers, HashMap::from(expected));
    assert_eq!(found.timeout, Duration::from_millis(1500));
    assert_eq!(found.certificate, Some(PathBuf::from("/ca.crt")));
    let text = |resource: &[(String, String)]| {
        let pairs = resource.iter().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(" ")
    };
    let expected = "k8s.namespace.name=web service.name=other service.version=1.2.3";
    assert_eq!(text(&found.resource), expected);
    let named: Vec<_> = variables
        .into_iter()
        .chain([("OTEL_SERVICE_NAME", "mine")])
        .collect();
    let found = read(&program(), &named).unwrap().unwrap();
    let expected = "k8s.namespace.name=web service.name=mine service.version=1.2.3";
    assert_eq!(text(&found.resource), expected);
}

#[test]
fn a_refused_value_names_its_variable_and_the_allowed_values() {
    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1");
    for (name, value, problem) in [
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http://HOST:PORT",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "/v1/traces",
            "http://HOST:PORT",
        ),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "4318"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "http/json",
            "http/protobuf",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "milliseconds"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "NAME=VALUE"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp and none"),
        (
            "OTEL_TRACES_SAMPLER", "jaeger_remote", "parentbased_traceidratio",
        ),
        ("OTEL_RESOURCE_ATTRIBUTES", "=web", "NAME=VALUE"),
    ] {
        let variables = [(name, value), ENDPOINT];
        let error = read(&program(), &variables).unwrap_err();
        assert!(error.contains(name) && error.contains(problem), "{error}");
        assert!(
            !error.contains("secret"),
            "a header may be a credential: {error}"
        );
    }
    let sampler = [
        ENDPOINT,
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
    ];
    let error = read(&program(), &sampler).unwrap_err();
    assert!(
        error.contains("OTEL_TRACES_SAMPLER_ARG") && error.contains("from 0 to 1"),
        "{error}"
    );
}
