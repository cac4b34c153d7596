//! Machine: names the spans of reconciles and webhook calls, and their attributes, as OpenTelemetry does.

use opentelemetry::trace::SpanKind;
use opentelemetry::{Key, KeyValue};
use opentelemetry_sdk::trace::SpanData;

/// The name of the span of a reconcile, as the controller makes it.
const RECONCILE: &str = "reconcile";
/// The attribute with the module that made a span.
const TARGET: &str = "target";
/// The beginning of the modules of the framework.
const FRAMEWORK: &str = "steersman";

/// The fields of a reconcile's span, which have the names of controller-runtime's logs, and their names as attributes.
const RECONCILE_NAMES: [(&str, &str); 11] = [
    ("controller", "steersman.controller.name"),
    ("controllerGroup", "steersman.object.group"),
    ("controllerKind", "steersman.object.kind"),
    ("cluster", "k8s.cluster.name"),
    ("namespace", "k8s.namespace.name"),
    ("name", "steersman.object.name"),
    ("request", "steersman.request"),
    ("reconcileID", "steersman.reconcile.id"),
    ("attempt", "steersman.reconcile.attempt"),
    ("result", "steersman.reconcile.result"),
    ("permitWait", "steersman.permit.wait"),
];

/// The name of the span of a webhook call.
const ADMISSION: &str = "admission";

/// The fields of a webhook call's span, and their names as attributes.
const ADMISSION_NAMES: [(&str, &str); 8] = [
    ("webhook", "steersman.webhook.path"),
    ("webhookGroup", "steersman.object.group"),
    ("webhookKind", "steersman.object.kind"),
    ("namespace", "k8s.namespace.name"),
    ("name", "steersman.object.name"),
    ("resource", "steersman.webhook.resource"),
    ("user", "user.name"),
    ("requestID", "steersman.webhook.request"),
];

/// Renames the attributes of a finished span. Runs before the export, so that a span that is not exported costs nothing.
pub(crate) fn rename(span: &mut SpanData) {
    let module = take(span, TARGET).map(|target| target.value.as_str().into_owned());
    if !module.is_some_and(|module| module.starts_with(FRAMEWORK)) {
        return;
    }
    // The first field completes the name of the span.
    let (names, kind) = match &*span.name {
        RECONCILE => (&RECONCILE_NAMES[..], SpanKind::Internal),
        ADMISSION => (&ADMISSION_NAMES[..], SpanKind::Server),
        _ => return,
    };
    span.span_kind = kind;
    let first = span
        .attributes
        .iter()
        .find(|attribute| attribute.key.as_str() == names[0].0);
    if let Some(first) = first {
        span.name = format!("{} {}", span.name, first.value).into();
    }
    for attribute in &mut span.attributes {
        let key = attribute.key.as_str();
        let named = names.iter().find(|(field, _)| *field == key);
        if let Some((_, name)) = named {
            attribute.key = Key::from_static_str(name);
        }
    }
}

fn take(span: &mut SpanData, key: &str) -> Option<KeyValue> {
    let attributes = &mut span.attributes;
    let place = attributes
        .iter()
        .position(|attribute| attribute.key.as_str() == key)?;
    Some(attributes.swap_remove(place))
}
