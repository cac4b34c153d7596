//! Machine: reads the name of a container image as upstream's `parsers.ParseImageName` does, for the default of the
//! pull policy. The grammar is that of `github.com/distribution/reference`.

/// Returns the tag of an image: `latest` for a name with neither a tag nor a digest, `""` for a name with only a digest
/// and for a text that names no image.
pub(super) fn tag(image: &str) -> &str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before a slash separates the port of the registry.
    let (name, tag) = match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (name, None),
    };
    let is_image = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    match tag {
        _ if !is_image => "",
        Some(tag) => tag,
        None if digest.is_some() => "",
        None => "latest",
    }
}

/// Returns whether a text is a path below a registry, with or without the registry.
fn is_name(name: &str) -> bool {
    // Docker's names of images by identifier.
    let is_identifier = name.len() == 64
        && name
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let path = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => {
            if !is_domain(first) {
                return false;
            }
            rest
        }
        _ => name,
    };
    !is_identifier && name.len() <= 255 && path.split('/').all(is_component)
}

/// Returns whether the first part of a name is meant as a registry.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.contains(|c: char| c.is_ascii_uppercase())
}

fn is_domain(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_end = |end: Option<&u8>| end.is_some_and(u8::is_ascii_alphanumeric);
        is_end(bytes.first())
            && is_end(bytes.last())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    let is_host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => {
            !address.is_empty()
                && address
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => host.split('.').all(is_label),
    };
    is_host && port.is_none_or(is_port)
}

/// Returns whether a text is one part of a path: lower-case letters and digits, separated by a dot, one or two
/// underscores, or any number of dashes.
fn is_component(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = part.split(|c: char| c.is_ascii() && is_word(c as u8));
    let ends = part.bytes().next().is_some_and(is_word) && part.bytes().last().is_some_and(is_word);
    ends && separators.into_iter().all(|between| {
        matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-')
    })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&tag.len())
        && tag.bytes().next().is_some_and(is_word)
        && tag
            .bytes()
            .all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// Returns whether a text is an algorithm and a hash, such as `sha256:` and 64 hexadecimal digits.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hash)) = digest.split_once(':') else {
        return false;
    };
    let is_part = |part: &str| {
        part.bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    // The length of the hash of a known algorithm is checked, too.
    let is_length = match algorithm {
        "sha256" => hash.len() == 64,
        "sha384" => hash.len() == 96,
        "sha512" => hash.len() == 128,
        _ => false,
    };
    is_length
        && algorithm.split(['+', '.', '-', '_']).all(is_part)
        && hash
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
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
