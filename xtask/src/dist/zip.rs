//! Writes zip files, the format of wheels (APPNOTE.TXT of PKWARE, without its 64-bit extensions).

use std::io::Write as _;

use flate2::Crc;
use flate2::write::DeflateEncoder;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::file::{PackedFile, Packing};

/// Returns a zip file with all files compressed, in the given order.
///
/// # Errors
/// Names a file that is too large for the format.
pub(super) fn zip(files: &[PackedFile], packing: &Packing) -> Result<Vec<u8>, String> {
    let time = dos_time(packing.time);
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for file in files {
        let start = small(file, out.len())?;
        let entry = entry(file, packing, time)?;
        out.extend(b"PK\x03\x04");
        out.extend(&entry.fields);
        out.extend(file.name.as_bytes());
        out.extend(&entry.compressed);
        // Made by version 2.0 on Unix, which is why the mode is in the upper half of the attributes.
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&entry.fields);
        directory.extend([0; 6]);
        directory.extend(((0o100_000 | file.mode) << 16).to_le_bytes());
        directory.extend(start.to_le_bytes());
        directory.extend(file.name.as_bytes());
    }
    end(&mut out, &directory, files.len())?;
    Ok(out)
}

/// A compressed file, and the fields that its two headers have in common.
struct Entry {
    fields: Vec<u8>,
    compressed: Vec<u8>,
}

fn entry(file: &PackedFile, packing: &Packing, time: u32) -> Result<Entry, String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), packing.level());
    let compressed = encoder
        .write_all(&file.bytes)
        .and_then(|()| encoder.finish())
        .map_err(|error| format!("{} could not be compressed: {error}", file.name))?;
    let mut crc = Crc::new();
    crc.update(&file.bytes);
    let length = u16::try_from(file.name.len())
        .map_err(|_| format!("{}: the path is too long for a zip file", file.name))?;
    let mut fields = Vec::new();
    // Version 2.0 reads it, the path is UTF-8, the method is deflate.
    for value in [20_u16, 0x800, 8] {
        fields.extend(value.to_le_bytes());
    }
    for value in [
        time,
        crc.sum(),
        small(file, compressed.len())?,
        small(file, file.bytes.len())?,
    ] {
        fields.extend(value.to_le_bytes());
    }
    fields.extend(length.to_le_bytes());
    // No extra fields.
    fields.extend([0; 2]);
    Ok(Entry { fields, compressed })
}

/// Appends the directory and the record that ends the file.
fn end(out: &mut Vec<u8>, directory: &[u8], count: usize) -> Result<(), String> {
    let too_large = |_| "the zip file is too large; pack fewer files".to_owned();
    let count = u16::try_from(count).map_err(too_large)?;
    let start = u32::try_from(out.len()).map_err(too_large)?;
    let size = u32::try_from(directory.len()).map_err(too_large)?;
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    Ok(())
}

fn small(file: &PackedFile, size: usize) -> Result<u32, String> {
    u32::try_from(size).map_err(|_| format!("{}: too large for a zip file", file.name))
}

/// Returns date and time in the format of DOS, in UTC: seconds are even, and the first year is 1980.
fn dos_time(seconds: i64) -> u32 {
    /// 1980-01-01 and 2107-12-31, in seconds since 1970.
    const RANGE: (i64, i64) = (315_532_800, 4_354_732_799);
    let clamped = seconds.clamp(RANGE.0, RANGE.1);
    let time = Timestamp::from_second(clamped).unwrap_or_default();
    let time = time.to_zoned(TimeZone::UTC).datetime();
    let [year, month, day, hour, minute, second] = [
        i32::from(time.year()) - 1980,
        time.month().into(),
        time.day().into(),
        time.hour().into(),
        time.minute().into(),
        i32::from(time.second()) / 2,
    ]
    .map(i32::cast_unsigned);
    (year << 9 | month << 5 | day) << 16 | hour << 11 | minute << 5 | second
}

#[cfg(test)]
mod tests {
    use super::{PackedFile, Packing, dos_time, zip};

    #[test]
    fn times_are_those_of_dos() {
        assert_eq!(dos_time(0), 0x0021_0000);
        // 2023-11-14 22:13:20
        assert_eq!(
            dos_time(1_700_000_000),
            (43 << 9 | 11 << 5 | 14) << 16 | (22 << 11 | 13 << 5 | 10)
        );
        assert_eq!(dos_time(i64::MAX) >> 25, 127);
    }

    #[test]
    fn the_directory_lists_each_file_with_its_mode() {
        let files = [
            PackedFile::data("a.py", "print()"),
            PackedFile::program("bin/b", vec![7; 1000]),
        ];
        let packing = Packing {
            time: 1_700_000_000,
            is_quick: false,
        };
        let packed = zip(&files, &packing).unwrap();
        let heads: Vec<usize> = packed
            .windows(4)
            .enumerate()
            .filter_map(|(at, bytes)| (bytes == b"PK\x01\x02").then_some(at))
            .collect();
        let [first, second] = heads[..] else {
            panic!("{heads:?}");
        };
        assert_eq!(&packed[first + 38..first + 42], &[0, 0, 0xa4, 0x81]);
        assert_eq!(&packed[second + 38..second + 42], &[0, 0, 0xed, 0x81]);
        assert_eq!(&packed[second + 46..second + 51], b"bin/b");
        // The last record has the number of files and the position of the directory.
        let last = packed.len() - 22;
        assert_eq!(&packed[last..last + 4], b"PK\x05\x06");
        assert_eq!(packed[last + 8], 2);
        assert_eq!(usize::from(packed[last + 16]), first);
    }
}
