//! Machine: derives and checks the names of field managers.

/// The longest name that servers accept, in bytes (`FieldManagerMaxLength` of apimachinery).
const LONGEST: usize = 128;

/// The error of a field manager with a name that servers refuse. Servers refuse every write with such a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the field manager {name:?} {problem}: servers take 1 to 128 bytes of printable characters"
)]
pub struct InvalidFieldManager {
    name: String,
    problem: String,
}

/// The number of bytes at the beginning of an overlong name that are kept when the name is shortened.
const BEGINNING: usize = 40;

/// Returns the field manager that the server derives from the program's `User-Agent`: the printable characters of the
/// name, up to the longest name that servers accept.
pub(crate) fn of_program(program: &str) -> String {
    let printable: String = program.chars().filter(|c| is_printable(*c)).collect();
    start_of(&printable, LONGEST).to_owned()
}

/// Returns the field manager of a controller of a program: `program/controller`.
///
/// Characters that servers refuse become `_`. An overlong name is shortened in the middle, with a hash of the whole
/// name in place of the cut part, so that different names stay different.
pub(crate) fn of_controller(program: &str, controller: &str) -> String {
    let whole = match program {
        "" => controller.to_owned(),
        program => format!("{program}/{controller}"),
    };
    let printable = |c: char| if is_printable(c) { c } else { '_' };
    let name: String = whole.chars().map(printable).collect();
    if name.len() <= LONGEST {
        return name;
    }
    let hash = format!("~{:08x}~", hash(&whole));
    let beginning = start_of(&name, BEGINNING);
    let end = end_of(&name, LONGEST - BEGINNING - hash.len());
    format!("{beginning}{hash}{end}")
}

/// Checks a field manager as servers do (`ValidateFieldManager` of apimachinery).
///
/// # Errors
///
/// If the name is empty, longer than 128 bytes, or has a character that is not printable.
pub fn check_field_manager(name: &str) -> Result<(), InvalidFieldManager> {
    let problem = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > LONGEST {
        format!("has {} bytes", name.len())
    } else if let Some(refused) = name.chars().find(|c| is_refused(*c)) {
        format!("has the character {refused:?}")
    } else {
        return Ok(());
    };
    Err(InvalidFieldManager {
        name: name.to_owned(),
        problem,
    })
}

/// Returns whether servers certainly refuse this character in a field manager. Unlike the negation of [`is_printable`],
/// it returns false for every symbol that servers accept.
fn is_refused(c: char) -> bool {
    // `escape_debug` escapes characters that are not printable. It also escapes a combining mark at the start of a
    // text, so an `a` stands before the character.
    let is_escaped = || format!("a{c}").escape_debug().count() > 2;
    !is_printable(c) && (c.is_ascii() || is_escaped())
}

/// Returns whether servers certainly accept this character in a field manager (`unicode.IsPrint` of Go). Returns false
/// for some symbols beyond ASCII that servers accept, too.
fn is_printable(c: char) -> bool {
    c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric()
}

/// Returns the FNV-1a hash of a text. A shortened name must be the same in every version of the program.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns the beginning of a text: whole characters of at most this many bytes.
fn start_of(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the end of a text: whole characters of at most this many bytes.
fn end_of(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_signs_with_the_names_of_program_and_controller() {
        assert_eq!(of_controller("shop", "namespace"), "shop/namespace");
        assert_eq!(of_controller("", "namespace"), "namespace");
        assert_eq!(of_controller("my shop", "a\tb\u{200b}é"), "my shop/a_b_é");
    }

    #[test]
    fn a_shortened_name_keeps_both_ends_and_stays_unique() {
        let long = "x".repeat(200);
        let exact = of_controller(&"p".repeat(LONGEST - 2), "c");
        assert_eq!(exact, format!("{}/c", "p".repeat(LONGEST - 2)));
        let names = [
            of_controller(&long, "website"),
            of_controller(&long, "database"),
            of_controller(&format!("{long}y{long}"), "website"),
            of_controller("shop", &long),
            of_controller("shop", &format!("{long}y{long}")),
            of_controller("shop", &"ü".repeat(100)),
            of_controller("shop", &format!("a{}", "ü".repeat(100))),
        ];
        for (number, name) in names.iter().enumerate() {
            assert!(name.len() <= LONGEST && name.len() > LONGEST - 4, "{name}");
            assert!(!names[..number].contains(name), "{name}");
        }
        assert!(names[0].starts_with("xxxx") && names[0].ends_with("x/website"));
        assert!(names[3].starts_with("shop/xxxx"));
        // This shortened name must not change: stored objects carry it as the owner of their fields, so a new version
        // of this crate must derive the same name.
        assert_eq!(
            of_controller("shop", &"0123456789".repeat(13)),
            "shop/01234567890123456789012345678901234~9fc7462d~\
             234567890123456789012345678901234567890123456789012345678901234567890123456789"
        );
    }

    #[test]
    fn a_program_signs_with_the_name_that_the_server_derives() {
        assert_eq!(of_program("shop"), "shop");
        assert_eq!(of_program("sh\u{7}op"), "shop");
        assert_eq!(of_program(&"ü".repeat(100)), "ü".repeat(64));
    }
}
