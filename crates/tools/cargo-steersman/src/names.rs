//! Machine: derives all names in a scaffold from a few given names, and checks the given names.

use kube_core::Version;
use steersman_apimachinery::names::{NameRule, check_name};
use syn::Ident;

use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramName {
    /// The name of the crate and of the program, such as `greeter`.
    pub(crate) program: String,
    /// The name of the library in Rust, such as `greeter`.
    pub(crate) library: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindNames {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    /// The name of the kind's Rust module, such as `greeting`.
    pub(crate) module: String,
    pub(crate) is_namespaced: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerNames {
    pub(crate) name: String,
    /// The name of the controller's Rust module, such as `image_policy`.
    pub(crate) module: String,
    /// The prefix of the controller's type names, such as `ImagePolicy`.
    pub(crate) type_prefix: String,
}

/// The greatest length of a DNS label.
const LABEL: usize = 63;

/// Names that a program cannot have, because cargo or Rust uses them.
const RESERVED: [&str; 16] = [
    "api", "build", "controllers", "core", "deps", "examples", "external", "std", "steersman",
    "test", "k8s-openapi", "schemars", "serde", "steersman-harness", "tokio", "webhooks",
];

pub(crate) const VERSION_RULE: &str = "a version is v1, v1beta1, v1alpha1, or the like";

/// The types that the files of a kind use. No kind can have the name of such a type.
const USED: [&str; 36] = [
    "Action", "AdmissionContext", "Defaulter", "FieldErrors", "Refusal", "Validator",
    "WebhookServer", "BoxError", "Clone", "Condition", "ConfigMap", "Context", "Controller",
    "CustomResource", "Debug", "Default", "Err", "Error", "JsonSchema", "KubeSchema", "Main",
    "Manager", "None", "Ok", "Option", "Reconciler", "Request", "Some", "String", "Vec",
    "OperatorTest", "Prepared", "Result", "RunningOperator", "Send", "Steersman",
];

/// More reserved type names: the types that the files of a controller or of an external kind use.
const USED_BY_EXTERNAL: [&str; 10] = [
    "BTreeMap", "Cow", "Deserialize", "IntOrString", "LabelSelector", "ObjectMeta", "Resource",
    "Serialize", "Time", "Value",
];

impl ProgramName {
    /// Checks the name of a program, which is also the name of a crate, of objects in a cluster, and of a Lease.
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        let rule = "a program has lower-case letters, digits and single hyphens, begins with a letter, and has at \
                    most 40 characters, because names of objects are made of it";
        check(is_short_name(name), "the name", name, rule)?;
        let library = name.replace('-', "_");
        let rule = "it has another meaning in Rust or in cargo";
        let is_free = !RESERVED.contains(&name) && !is_keyword(&library);
        check(is_free, "the name", name, rule)?;
        Ok(Self {
            program: name.to_owned(),
            library,
        })
    }

    /// Returns the default kind of a program: `Greeter` for `greeter-operator`.
    pub(crate) fn kind(&self) -> String {
        let stem = self.program.strip_suffix("-operator");
        let words = stem.unwrap_or(&self.program).split('-');
        words.map(capitalized).collect()
    }
}

impl KindNames {
    /// Checks the names of a kind. Derives the plural from the kind if no plural is given.
    pub(crate) fn new(
        (group, version, kind): (&str, &str, &str),
        plural: Option<&str>,
        is_namespaced: bool,
    ) -> Result<Self, Error> {
        let is_group = group.split('.').all(is_label) && group.contains('.') && group.len() <= 200;
        let rule = "a group is a DNS name with a dot that is yours, such as example.com";
        check(is_group, "the group", group, rule)?;
        let dotted = format!(".{group}");
        let is_own = !dotted.ends_with(".k8s.io") && !dotted.ends_with(".kubernetes.io");
        let rule = "groups below k8s.io and kubernetes.io are those of Kubernetes";
        check(is_own, "the group", group, rule)?;
        check(is_version(version), "the version", version, VERSION_RULE)?;
        let is_kind = kind.starts_with(|c: char| c.is_ascii_uppercase())
            && kind.chars().all(|c| c.is_ascii_alphanumeric())
            && kind.len() <= LABEL;
        let rule = "a kind has letters and digits and begins with a capital, such as Greeting";
        check(is_kind, "the kind", kind, rule)?;
        let module = snake(kind);
        let is_free = !USED.contains(&kind) && !is_keyword(&module) && module != "config";
        let rule = "the files of an operator use this name for something else: choose another kind";
        check(is_free, "the kind", kind, rule)?;
        let plural = plural.map_or_else(|| plural_of(kind), str::to_owned);
        let rule = "a plural name has lower-case letters, digits and hyphens, such as greetings";
        check(is_name(&plural), "the plural name", &plural, rule)?;
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural,
            module,
            is_namespaced,
        })
    }
}

impl ControllerNames {
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        let module = name.replace('-', "_");
        let rule = "a controller has lower-case letters, digits and single hyphens, begins with a letter, and has at \
                    most 40 characters, such as image-policy";
        check(is_short_name(name), "the name", name, rule)?;
        let rule = "it has another meaning in Rust: choose one with --name";
        let is_free = !is_keyword(&module) && module != "main";
        check(is_free, "the name", name, rule)?;
        Ok(Self {
            name: name.to_owned(),
            type_prefix: name.split('-').map(capitalized).collect(),
            module,
        })
    }

    /// Derives the names of a controller from the kind that it reconciles.
    pub(crate) fn of_kind(kind: &str) -> Result<Self, Error> {
        Self::new(&snake(kind).replace('_', "-"))
    }
}

/// Returns the Rust type name of a kind: the kind, with a suffix if the generated files use that name.
pub(crate) fn type_name(kind: &str) -> String {
    match USED.contains(&kind) || USED_BY_EXTERNAL.contains(&kind) {
        true => format!("{kind}Object"),
        false => kind.to_owned(),
    }
}

pub(crate) fn is_keyword(word: &str) -> bool {
    // These words are keywords only in some positions, or only since edition 2024.
    ["gen", "union"].contains(&word) || syn::parse_str::<Ident>(word).is_err()
}

/// Returns an error about the name `text` unless `holds` is true.
pub(crate) fn check(holds: bool, what: &'static str, text: &str, rule: &str) -> Result<(), Error> {
    match holds {
        true => Ok(()),
        false => Err(Error::Name {
            what,
            text: text.to_owned(),
            rule: rule.to_owned(),
        }),
    }
}

fn is_label(text: &str) -> bool {
    check_name(NameRule::Label, text).is_empty()
}

fn is_name(text: &str) -> bool {
    check_name(NameRule::Label1035, text).is_empty()
}

/// Returns whether a text may name a program or a controller: other names are derived from such names.
fn is_short_name(text: &str) -> bool {
    is_name(text) && !text.contains("--") && text.len() <= 40
}

/// Returns whether a text is a version that kubectl can order by maturity, such as `v1` or `v2beta1`.
pub(crate) fn is_version(text: &str) -> bool {
    let is_number = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.chars().all(|c| c.is_ascii_digit())
    };
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    let parts = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
    text.len() <= LABEL
        && match parts {
            Some((major, minor)) => is_number(major) && is_number(minor),
            None => is_number(rest),
        }
}

/// Returns a sort key for versions: newer versions are greater, in the order of the attribute `versioned`.
pub(crate) fn version_age(version: &str) -> impl Ord + use<> {
    Version::parse(version).generation()
}

/// Returns a word with its first letter in upper case.
pub(crate) fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns a name in snake case: `dns_record` for `DNSRecord`.
pub(crate) fn snake(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let mut name = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let begins_word = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                let next = letters.get(at + 1);
                !before.is_ascii_uppercase() || next.is_some_and(char::is_ascii_lowercase)
            });
        if begins_word {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Returns the plural of a kind by the regular rules of English.
fn plural_of(kind: &str) -> String {
    let name = kind.to_ascii_lowercase();
    let ends_in = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if ends_in(&["s", "x", "z", "ch", "sh"]) {
        return name + "es";
    }
    match name.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => name + "s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_program_is_its_name_without_operator() {
        for (program, kind) in [
            ("greeter", "Greeter"),
            ("greeter-operator", "Greeter"),
            ("dns-record-operator", "DnsRecord"),
        ] {
            assert_eq!(ProgramName::new(program).unwrap().kind(), kind);
        }
        for name in [
            "", "-a", "a-", "A", "a_b", "1a", "a--b", "test", "fn", "self", "steersman", "ä",
        ] {
            let error = ProgramName::new(name).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")), "{error}");
        }
        assert!(ProgramName::new(&"a".repeat(41)).is_err());
    }

    #[test]
    fn the_names_of_a_kind_follow_from_it() {
        for (kind, plural, module) in [
            ("Greeting", "greetings", "greeting"),
            ("DNSRecord", "dnsrecords", "dns_record"),
            ("Policy", "policies", "policy"),
            ("Gateway", "gateways", "gateway"),
            ("Proxy", "proxies", "proxy"),
            ("Class", "classes", "class"),
            ("S3Bucket", "s3buckets", "s3_bucket"),
        ] {
            let names = KindNames::new(("example.com", "v1", kind), None, true).unwrap();
            assert_eq!((&*names.plural, &*names.module), (plural, module));
        }
    }

    #[test]
    fn a_name_that_cannot_be_used_is_named_with_the_rule() {
        for (group, version, kind, named) in [
            ("example", "v1", "A", "the group \"example\""),
            ("Example.com", "v1", "A", "the group"),
            ("apps.k8s.io", "v1", "A", "those of Kubernetes"),
            ("example.com", "1", "A", "the version \"1\""),
            ("example.com", "v0", "A", "the version"),
            ("example.com", "v1gamma1", "A", "the version"),
            ("example.com", "v1", "greeting", "the kind \"greeting\""),
            ("example.com", "v1", "My-Kind", "the kind"),
            ("example.com", "v1", "ConfigMap", "something else"),
            ("example.com", "v1", "Type", "something else"),
        ] {
            let error = KindNames::new((group, version, kind), None, true).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        for name in ["", "A", "a_b", "a--b", "fn", "-a", "a-"] {
            let error = ControllerNames::new(name).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")), "{error}");
        }
        let names = ControllerNames::of_kind("ImagePolicy").unwrap();
        assert_eq!(
            (&*names.name, &*names.module, &*names.type_prefix),
            ("image-policy", "image_policy", "ImagePolicy")
        );
        assert_eq!(["Pod", "Context"].map(type_name), ["Pod", "ContextObject"]);
        let plural = KindNames::new(("example.com", "v1", "A"), Some("As"), true);
        assert!(plural.unwrap_err().to_string().contains("\"As\""));
        let ages = [
            "v1alpha1", "v1alpha2", "v1beta1", "v1", "v2alpha1", "v2", "v10",
        ];
        assert!(ages.map(version_age).is_sorted());
        for version in ["v1", "v2beta1", "v10alpha12"] {
            KindNames::new(("example.com", version, "A"), None, true).unwrap();
        }
    }
}
