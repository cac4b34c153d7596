//! Machine: checks whether the API server can call the webhooks of the program.

use k8s_openapi::ByteString;
use serde_json::Value;
use steersman_certificates::CertificateReport;
use steersman_object::{json_items, json_text};

use crate::doctor::finding::{Findings, SeenFact, SeenObject};

/// The state of the cluster that the check of the webhooks needs.
#[derive(Clone, Debug)]
pub(crate) struct WebhookFacts {
    pub(crate) service_name: String,
    /// The webhook configurations on the server, in the order of the program's configurations.
    pub(crate) configurations: Vec<SeenObject>,
    /// The definitions on the server that have a conversion webhook.
    pub(crate) converted: Vec<Value>,
    pub(crate) service: SeenObject,
    pub(crate) slices: SeenFact<Vec<Value>>,
    pub(crate) secret_name: String,
    pub(crate) certificates: SeenFact<Option<CertificateReport>>,
    /// Whether the Deployment mounts its own certificates, with the flag `--webhook-cert-path`.
    pub(crate) has_own_certificate: bool,
}

/// The fields of a webhook that must be equal on the server and in the program.
const COMPARED: [(&str, &str); 3] = [
    (
        "/clientConfig/service/namespace",
        "the namespace of its Service",
    ),
    ("/clientConfig/service/name", "its Service"),
    ("/clientConfig/service/path", "its path"),
];
const REGENERATE: &str = "run `cargo steersman generate` and `kubectl apply -k config/webhook`, or `cargo steersman deploy`";
const LEADER_INJECTS: &str = "the leader of the operator injects it; if it runs, its log says why not, and \"permissions\" above what it lacks";
const OTHERS_INJECT: &str = "cert-manager injects it into objects with the annotation cert-manager.io/inject-ca-from: see whether the object \
     has it, which the flag --webhook-inject-ca-from and the option cert-manager set, and `kubectl describe` of the \
     Certificate";

/// Checks the webhook configurations of the program, and all objects that the server needs to call the webhooks.
pub(crate) fn check_webhooks(wanted: &[Value], facts: &WebhookFacts) -> Findings {
    let authorities = match &facts.certificates {
        Ok(Some(report)) if !facts.has_own_certificate => Some(report.authorities.as_str()),
        _ => None,
    };
    let injection = match facts.has_own_certificate {
        true => OTHERS_INJECT,
        false => LEADER_INJECTS,
    };
    let mut findings = Findings::default();
    for (wanted, seen) in wanted.iter().zip(&facts.configurations) {
        let found = configuration(wanted, seen, authorities, injection);
        findings.0.extend(found.0);
    }
    for definition in &facts.converted {
        let client = &definition["spec"]["conversion"]["webhook"]["clientConfig"];
        let name = json_text(&definition["metadata"]["name"]);
        let name = format!("the conversion webhook of {name}");
        match bundle_problem(client, authorities) {
            Some(problem) => findings.problem(format!("{name} {problem}"), injection),
            None => findings.good(format!("{name} is set")),
        }
    }
    service(facts, &mut findings);
    certificates(facts, &mut findings);
    findings
}

fn configuration(
    wanted: &Value,
    seen: &SeenObject,
    authorities: Option<&str>,
    injection: &str,
) -> Findings {
    let mut findings = Findings::default();
    let [kind, name] = [&wanted["kind"], &wanted["metadata"]["name"]].map(json_text);
    let name = format!("{kind} {name}");
    let Some(present) = findings.present(seen, &name, REGENERATE) else {
        return findings;
    };
    let webhook_of = |configuration: &'_ Value, name: &Value| {
        let mut webhooks = json_items(&configuration["webhooks"]);
        webhooks.find(|webhook| webhook["name"] == *name).cloned()
    };
    for webhook in json_items(&wanted["webhooks"]) {
        let own = json_text(&webhook["name"]);
        let Some(found) = webhook_of(present, &webhook["name"]) else {
            findings.problem(format!("{name} lacks the webhook {own}"), REGENERATE);
            continue;
        };
        let compared = COMPARED.iter();
        let differing = compared.filter(|(part, _)| webhook.pointer(part) != found.pointer(part));
        let mut differing: Vec<&str> = differing.map(|(_, part)| *part).collect();
        if !covers(&found, webhook) {
            differing.push("its rules");
        }
        if !differing.is_empty() {
            let parts = differing.join(", ");
            let text = format!("{name}: the webhook {own} differs from the program's in {parts}");
            findings.problem(text, REGENERATE);
        }
        if let Some(problem) = bundle_problem(&found["clientConfig"], authorities) {
            findings.problem(format!("{name}: the webhook {own} {problem}"), injection);
        }
    }
    for found in json_items(&present["webhooks"]) {
        if webhook_of(wanted, &found["name"]).is_none() {
            let own = json_text(&found["name"]);
            let text = format!("{name} has the webhook {own}, which the program does not have");
            findings.problem(text, REGENERATE);
        }
    }
    if findings.0.is_empty() {
        findings.good(format!("{name} has the webhooks of the program"));
    }
    findings
}

/// Returns whether the webhook rules on the server cover those of the program; the server's may have more entries.
fn covers(found: &Value, wanted: &Value) -> bool {
    let parts = ["apiGroups", "apiVersions", "resources", "operations"];
    let includes = |found: &Value, wanted: &Value| {
        let has = |entry: &Value| json_items(found).any(|one| one == entry || one == "*");
        json_items(wanted).all(has)
    };
    json_items(&wanted["rules"]).all(|wanted| {
        let mut rules = json_items(&found["rules"]);
        rules.any(|found| {
            parts
                .iter()
                .all(|part| includes(&found[*part], &wanted[*part]))
        })
    })
}

/// Returns the problem with the CA bundle of a client configuration, if any.
fn bundle_problem(client: &Value, authorities: Option<&str>) -> Option<&'static str> {
    let bundle = serde_json::from_value::<ByteString>(client["caBundle"].clone());
    let bundle = bundle.map(|bundle| bundle.0).unwrap_or_default();
    if bundle.is_empty() {
        return Some("has no caBundle, so the server trusts no certificate of the operator");
    }
    let differs = authorities.is_some_and(|authorities| authorities.as_bytes() != bundle);
    differs.then_some("has another caBundle than the operator's Secret")
}

fn service(facts: &WebhookFacts, findings: &mut Findings) {
    let name = format!("Service {}", facts.service_name);
    let service = findings.present(&facts.service, &name, REGENERATE);
    if service.is_none() {
        return;
    }
    let Some(slices) = findings.known(&facts.slices, &format!("the endpoints of {name}")) else {
        return;
    };
    let endpoints = slices
        .iter()
        .flat_map(|slice| json_items(&slice["endpoints"]));
    // An endpoint without the condition `ready` counts as ready.
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
    match ready.count() {
        0 => findings.problem(
            format!("{name} has no ready endpoint, so each write of a covered kind is refused"),
            "start the operator with --webhook-bind-address, and see \"deployment\" below",
        ),
        1 => findings.good(format!("{name} has 1 ready endpoint")),
        many => findings.good(format!("{name} has {many} ready endpoints")),
    }
}

fn certificates(facts: &WebhookFacts, findings: &mut Findings) {
    if facts.has_own_certificate {
        return findings.good("the certificates are those of --webhook-cert-path");
    }
    let name = format!("Secret {}", facts.secret_name);
    let advice = "the leader of the operator makes it; with certificates of another origin, set --webhook-cert-path in the \
                  Deployment";
    let Some(report) = findings.present(&facts.certificates, &name, advice) else {
        return;
    };
    let advice = "the leader of the operator repairs and renews it: see whether it runs under \"leader election\" below";
    for problem in &report.problems {
        findings.problem(format!("{name}: {problem}"), advice);
    }
    let serving = format!("{name}: the serving certificate");
    match &report.validity {
        Some((_, to)) if report.is_late => {
            findings.problem(format!("{serving} expires at {to}"), advice);
        }
        Some((_, to)) => findings.good(format!("{serving} is valid until {to}")),
        None if report.problems.is_empty() => {
            findings.problem(format!("{name} has no certificate"), advice);
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::{FindingLevel, Unseen};

    fn webhook() -> Value {
        json!({
            "name": "validate.sites.example.com",
            "clientConfig": {
                "service": {"name": "sites", "namespace": "sites-system", "path": "/validate"},
                "caBundle": "Y2E=",
            },
            "rules": [{
                "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["sites"], "operations": ["CREATE", "UPDATE"],
            }],
        })
    }

    fn configuration(webhooks: &Value) -> Value {
        json!({
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "sites"}, "webhooks": webhooks,
        })
    }

    fn facts(webhooks: &Value) -> WebhookFacts {
        WebhookFacts {
            service_name: "sites-system/sites".to_owned(),
            configurations: vec![Ok(Some(configuration(webhooks)))],
            converted: vec![json!({
                "metadata": {"name": "sites.example.com"},
                "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": "Y2E="}}}},
            })],
            service: Ok(Some(json!({}))),
            slices: Ok(vec![json!({"endpoints": [{"conditions": {}}]})]),
            secret_name: "sites-system/sites-certificates".to_owned(),
            certificates: Ok(None),
            has_own_certificate: true,
        }
    }

    fn problems(facts: &WebhookFacts) -> Vec<String> {
        let found = check_webhooks(&[configuration(&json!([webhook()]))], facts).0;
        let problems = found
            .into_iter()
            .filter(|finding| finding.level == FindingLevel::Problem);
        problems.map(|finding| finding.text).collect()
    }

    #[test]
    fn the_advice_about_a_missing_authority_names_the_program_that_injects_it() {
        let mut lacking = webhook();
        lacking["clientConfig"]
            .as_object_mut()
            .unwrap()
            .remove("caBundle");
        let mut facts = facts(&json!([lacking]));
        for (has_own_certificate, injector) in [(true, "cert-manager"), (false, "the leader")] {
            facts.has_own_certificate = has_own_certificate;
            let found = check_webhooks(&[configuration(&json!([webhook()]))], &facts).0;
            let mut found = found
                .iter()
                .filter(|finding| finding.text.contains("no caBundle"));
            let advice = &found.next().unwrap().advice[0];
            assert!(advice.starts_with(injector), "{advice}");
        }
    }

    #[test]
    fn each_part_of_a_configuration_is_compared() {
        assert_eq!(problems(&facts(&json!([webhook()]))), [""; 0]);
        let mut wider = webhook();
        wider["rules"][0]["operations"] = json!(["*"]);
        assert_eq!(problems(&facts(&json!([wider]))), [""; 0]);
        let mut other = webhook();
        other["clientConfig"]["service"]["namespace"] = json!("default");
        other["rules"][0]["operations"] = json!(["CREATE"]);
        other["clientConfig"]["caBundle"] = json!(null);
        let mut strange = webhook();
        strange["name"] = json!("old.sites.example.com");
        let found = problems(&facts(&json!([other, strange])));
        let [differs, bundle, old] = &*found else {
            panic!("{found:?}");
        };
        assert!(
            differs.ends_with("in the namespace of its Service, its rules"),
            "{differs}"
        );
        assert!(bundle.contains("has no caBundle"), "{bundle}");
        assert!(
            old.contains("has the webhook old.sites.example.com"),
            "{old}"
        );
        let found = problems(&facts(&json!([])));
        assert!(
            found[0].contains("lacks the webhook validate.sites.example.com"),
            "{found:?}"
        );
    }

    #[test]
    fn a_service_without_endpoints_and_a_lost_secret_are_problems() {
        let mut facts = facts(&json!([webhook()]));
        facts.has_own_certificate = false;
        facts.slices = Ok(vec![
            json!({"endpoints": [{"conditions": {"ready": false}}]}),
            json!({"endpoints": null}),
        ]);
        let found = problems(&facts);
        assert!(found[0].contains("no ready endpoint"), "{found:?}");
        assert!(
            found[1].contains("sites-certificates is missing"),
            "{found:?}"
        );
        facts.service = Ok(None);
        facts.configurations = vec![Ok(None)];
        facts.certificates = Err(Unseen::forbidden("403"));
        let found = problems(&facts);
        assert!(
            found[0].contains("ValidatingWebhookConfiguration sites is missing"),
            "{found:?}"
        );
        assert!(
            found[1].contains("Service sites-system/sites is missing"),
            "{found:?}"
        );
    }
}
