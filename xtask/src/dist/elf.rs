//! Recognises programs of Linux that need no other file.

/// Returns whether the bytes are a 64-bit ELF program that names no dynamic loader.
pub(super) fn is_static(program: &[u8]) -> bool {
    needs_no_loader(program) == Some(true)
}

/// Reads the table of segments; `None` if the bytes are no such program.
fn needs_no_loader(program: &[u8]) -> Option<bool> {
    /// 64 bits, little-endian.
    const MAGIC: &[u8] = b"\x7fELF\x02\x01";
    /// The type of the segment with the path of the loader.
    const LOADER: [u8; 4] = [3, 0, 0, 0];
    program.starts_with(MAGIC).then_some(())?;
    let start = u64::from_le_bytes(*program.get(32..)?.first_chunk()?);
    let start = usize::try_from(start).ok()?;
    let [size, count] =
        [54, 56].map(|at| Some(u16::from_le_bytes(*program.get(at..)?.first_chunk()?)));
    let (size, count) = (usize::from(size?), usize::from(count?));
    for index in 0..count {
        let segment = start.checked_add(size.checked_mul(index)?)?;
        if program.get(segment..)?.first_chunk() == Some(&LOADER) {
            return Some(false);
        }
    }
    Some(count > 0)
}

#[cfg(test)]
mod tests {
    use super::is_static;

    /// Returns a program with segments of these types.
    fn program(segments: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(segments.len()).unwrap();
        for segment in segments {
            bytes.extend(segment.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes
    }

    #[test]
    fn a_program_that_names_a_loader_is_not_static() {
        assert!(is_static(&program(&[1, 1, 2])));
        assert!(!is_static(&program(&[6, 3, 1])));
    }

    #[test]
    fn no_bytes_cause_a_panic() {
        let full = program(&[1, 3]);
        for length in 0..full.len() {
            is_static(&full[..length]);
        }
        let mut far = full;
        far[32..40].fill(0xff);
        assert!(!is_static(&far) && !is_static(b"#!/bin/sh"));
    }
}
