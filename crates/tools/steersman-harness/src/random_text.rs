//! Machine: makes random texts for a pattern or an OpenAPI format.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};
use steersman_testenv::seeds::SeededRng;

/// The maximal number of repetitions above the minimum.
const REPETITIONS: u64 = 4;

/// Characters that conversions easily lose: because of encodings, quotes, or trimming.
const RARE: &[&str] = &["é", "✓", "\"", "\\", " ", "\n", "🦀"];

const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// Returns a text that matches a pattern; `None` for an invalid regular expression.
pub(crate) fn matching(pattern: &str, rng: &mut SeededRng) -> Option<String> {
    let hir = regex_syntax::parse(pattern).ok()?;
    let mut text = String::new();
    write(&hir, rng, &mut text);
    Some(text)
}

pub(crate) fn plain(least: u64, most: u64, rng: &mut SeededRng) -> String {
    let most = most.min(least.saturating_add(8)).max(least);
    let length = least + rng.below(most - least + 1);
    let char = |rng: &mut SeededRng| {
        if rng.chance(3) {
            rng.pick(RARE).to_owned()
        } else {
            char::from(rng.pick(ALPHABET)).to_string()
        }
    };
    (0..length).map(|_| char(rng)).collect()
}

pub(crate) fn name(rng: &mut SeededRng) -> String {
    let letters = (0..1 + rng.below(6)).map(|_| char::from(rng.pick(&ALPHABET[..26])));
    letters.collect()
}

/// Returns a text in a format; `None` for an unknown format.
pub(crate) fn of_format(format: &str, rng: &mut SeededRng) -> Option<String> {
    let mut below = |end: u64| rng.below(end);
    Some(match format {
        "date-time" => format!(
            "20{:02}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            below(80),
            1 + below(12),
            1 + below(28),
            below(24),
            below(60),
            below(60)
        ),
        "date" => {
            let (year, month, day) = (below(80), 1 + below(12), 1 + below(28));
            format!("20{year:02}-{month:02}-{day:02}")
        }
        "duration" => format!("{}h{}m{}s", below(24), below(60), below(60)),
        "byte" => {
            let word = ["", "YQ==", "YWI=", "YWJj", "c2VjcmV0"];
            word[rng.index(word.len())].to_owned()
        }
        "ipv4" | "ip" => format!("10.{}.{}.{}", below(256), below(256), below(256)),
        "ipv6" => format!("fd00::{:x}", 1 + below(0xffff)),
        "cidr" => format!("10.{}.0.0/16", below(256)),
        "mac" => format!("02:00:00:00:{:02x}:{:02x}", below(256), below(256)),
        "uuid" | "uuid4" => {
            let (first, last) = (below(1 << 32), below(1 << 48));
            format!("{first:08x}-0000-4000-8000-{last:012x}")
        }
        "uri" | "url" => format!("https://example.com/{}", below(1000)),
        "email" => format!("user{}@example.com", below(1000)),
        "hostname" | "k8s-short-name" | "k8s-long-name" => format!("host-{}", below(1000)),
        _ => return None,
    })
}

/// Returns a random quantity, such as `250m` or `4Gi`.
pub(crate) fn quantity(rng: &mut SeededRng) -> String {
    let unit = rng.pick(&["", "m", "k", "Ki", "Mi", "Gi", "%"]);
    format!("{}{unit}", rng.below(1000))
}

fn write(hir: &Hir, rng: &mut SeededRng, text: &mut String) {
    match hir.kind() {
        // Anchors need no text, because the generated text matches as a whole.
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(one_of(class, rng)),
        HirKind::Repetition(repetition) => {
            let least = u64::from(repetition.min);
            let most = repetition.max.map_or(u64::MAX, u64::from);
            let most = most.min(least + REPETITIONS);
            for _ in 0..least + rng.below(most - least + 1) {
                write(&repetition.sub, rng, text);
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, rng, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, rng, text)),
        HirKind::Alternation(branches) => write(&branches[rng.index(branches.len())], rng, text),
    }
}

/// Returns a character of a class: printable ASCII if possible.
fn one_of(class: &Class, rng: &mut SeededRng) -> Option<char> {
    let class = match class {
        Class::Unicode(class) => class.clone(),
        // The parser refuses patterns with bytes that are not ASCII, because they match no text.
        Class::Bytes(class) => class.to_unicode_class()?,
    };
    let mut printable = class.clone();
    printable.intersect(&ClassUnicode::new([ClassUnicodeRange::new(' ', '~')]));
    let ranges = match printable.ranges() {
        [] => class.ranges(),
        ranges => ranges,
    };
    if ranges.is_empty() {
        return None;
    }
    let range = rng.pick(ranges);
    let (start, end) = (u32::from(range.start()), u32::from(range.end()));
    let drawn = u64::from(start) + rng.below(u64::from(end - start) + 1);
    // In a class without printable ASCII, the number may be a surrogate, which is no character.
    char::from_u32(u32::try_from(drawn).ok()?).or_else(|| Some(range.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_matches_its_pattern() {
        for (pattern, chars) in [
            (
                r"^[a-z]{2}\d+(m|h)$",
                "abcdefghijklmnopqrstuvwxyz0123456789",
            ),
            ("^(x|yz)*$", "xyz"),
            ("a?b+", "ab"),
        ] {
            for seed in 0..200 {
                let text = matching(pattern, &mut SeededRng::new(seed)).unwrap();
                assert!(
                    text.chars().all(|char| chars.contains(char)),
                    "{pattern}: {text}"
                );
            }
        }
        let number = matching(r"^\d{2,3}s$", &mut SeededRng::new(1)).unwrap();
        assert!(
            number.ends_with('s') && (3..=4).contains(&number.len()),
            "{number}"
        );
        assert_eq!(matching("(", &mut SeededRng::new(1)), None);
    }

    #[test]
    fn a_plain_text_keeps_its_bounds() {
        for seed in 0..500 {
            let text = plain(2, 5, &mut SeededRng::new(seed));
            assert!((2..=5).contains(&text.chars().count()), "{text}");
        }
        assert_eq!(plain(3, 1, &mut SeededRng::new(1)).chars().count(), 3);
    }
}
