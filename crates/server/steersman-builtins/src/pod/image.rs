//! Machine: reads the name of a container image as upstream's `parsers.ParseImageName` does, for the default of the
//! pull policy. The grammar is that of `github.com/distribution/reference`.

use std::sync::LazyLock;

use regex::Regex;
use steersman_apimachinery::constant_pattern::{ConstantPattern, is_match};

/// Matches an image. The first of several parts of a name is a registry if it has a dot.
static IMAGE: ConstantPattern = LazyLock::new(|| {
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
    let registry = format!(r"(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let part = "[a-z0-9]+(?:(?:[.]|__?|-+)[a-z0-9]+)*";
    let plain_part = part.replace("[.]|", "");
    let tag = "(?<tag>[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})";
    let digest = "sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}";
    Regex::new(&format!(
        "^(?<name>(?:{registry}|{plain_part})(?:/{part})+|{part})(?::{tag})?(?<digest>@(?:{digest}))?$"
    ))
    .ok()
});

/// Matches Docker's names of images by identifier, which are no names of images.
static IDENTIFIER: ConstantPattern = LazyLock::new(|| Regex::new("^[a-f0-9]{64}$").ok());

/// Returns the tag of an image, by default `latest`; empty for a name with only a digest.
pub(super) fn tag(image: &str) -> &str {
    let Some(found) = IMAGE.as_ref().and_then(|pattern| pattern.captures(image)) else {
        return "";
    };
    let name = &found["name"];
    if name.len() > 255 || is_match(&IDENTIFIER, name) {
        return "";
    }
    match (found.name("tag"), found.name("digest")) {
        (Some(tag), _) => tag.as_str(),
        (None, Some(_)) => "",
        (None, None) => "latest",
    }
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn the_tag_of_an_image_is_read_as_upstream_does() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (image, wanted) in [
            ("nginx".to_owned(), "latest"),
            ("nginx:latest".to_owned(), "latest"),
            ("nginx:1.2".to_owned(), "1.2"),
            ("localhost:5000/a/b".to_owned(), "latest"),
            ("Example.com/a:v1".to_owned(), "v1"),
            ("[::1]:80/a:v1".to_owned(), "v1"),
            ("a__b/c---d/e.f:v1".to_owned(), "v1"),
            (format!("nginx@{digest}"), ""),
            (format!("nginx:latest@{digest}"), "latest"),
            (format!("nginx:1.2@{digest}"), "1.2"),
            // These name no image.
            (String::new(), ""),
            ("ko://example.com/cmd".to_owned(), ""),
            ("Nginx".to_owned(), ""),
            ("a/B".to_owned(), ""),
            ("a..b".to_owned(), ""),
            ("a/".to_owned(), ""),
            ("a b".to_owned(), ""),
            ("nginx:".to_owned(), ""),
            ("nginx:-a".to_owned(), ""),
            ("nginx@sha256:0a".to_owned(), ""),
            ("${IMAGE}".to_owned(), ""),
            ("0a".repeat(32), ""),
        ] {
            assert_eq!(tag(&image), wanted, "{image}");
        }
    }
}
