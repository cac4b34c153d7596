//! Writes archives in the format ustar (POSIX.1-1988), compressed with gzip.

use std::io::Write as _;

use flate2::write::GzEncoder;

use super::file::{PackedFile, Packing};

/// The unit of the format: the size of a header, and the multiple to which contents are filled up with zeros.
const BLOCK: usize = 512;
/// The longest path.
const LONGEST: usize = 100;

/// Returns an archive of regular files that belong to root.
///
/// # Errors
/// Names a file with a path or a size that the format cannot hold.
pub(super) fn tar_gz(files: &[PackedFile], packing: &Packing) -> Result<Vec<u8>, String> {
    let mut out = GzEncoder::new(Vec::new(), packing.level());
    let mut write = |bytes: &[u8]| {
        let written = out.write_all(bytes);
        written.map_err(|error| format!("an archive could not be compressed: {error}"))
    };
    for file in files {
        write(&header(file, packing.time)?)?;
        write(&file.bytes)?;
        write(&[0; BLOCK][..file.bytes.len().next_multiple_of(BLOCK) - file.bytes.len()])?;
    }
    // Two empty blocks end an archive.
    write(&[0; 2 * BLOCK])?;
    out.finish()
        .map_err(|error| format!("an archive could not be compressed: {error}"))
}

fn header(file: &PackedFile, time: i64) -> Result<[u8; BLOCK], String> {
    let name = file.name.as_bytes();
    if name.is_empty() || name.len() > LONGEST {
        return Err(format!(
            "{}: a path in an archive has 1 to {LONGEST} bytes; choose another one",
            file.name
        ));
    }
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name);
    // Numbers are octal digits behind zeros, with a zero byte at the end.
    let mut number = |at: usize, digits: usize, value: u64| {
        let text = format!("{value:0digits$o}");
        if text.len() > digits {
            return Err(format!(
                "{}: {value} is too large for an archive",
                file.name
            ));
        }
        header[at..at + digits].copy_from_slice(text.as_bytes());
        Ok(())
    };
    let size = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
    number(100, 7, file.mode.into())?;
    number(108, 7, 0)?;
    number(116, 7, 0)?;
    number(124, 11, size)?;
    number(136, 11, time.try_into().unwrap_or_default())?;
    // The numbers of a device, which regular files do not have.
    number(329, 7, 0)?;
    number(337, 7, 0)?;
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[265..269].copy_from_slice(b"root");
    header[297..301].copy_from_slice(b"root");
    // The sum of all bytes is computed with spaces in its own field.
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::{PackedFile, Packing, header, tar_gz};

    const PACKING: Packing = Packing {
        time: 1_700_000_000,
        is_quick: true,
    };

    #[test]
    fn a_header_is_the_one_that_gnu_tar_writes() {
        let file = PackedFile::program("controller-tools/envtest/etcd", vec![1; 600]);
        let header = header(&file, PACKING.time).unwrap();
        assert_eq!(&header[..30], b"controller-tools/envtest/etcd\0");
        assert_eq!(&header[100..116], b"0000755\x000000000\0");
        assert_eq!(&header[124..148], b"00000001130\x0014524770400\0");
        assert_eq!(&header[148..157], b"016730\0 0");
        assert_eq!(&header[257..270], b"ustar\x0000root\0");
        assert_eq!(&header[329..345], b"0000000\x000000000\0");
    }

    #[test]
    fn contents_are_filled_up_to_blocks() {
        let files = [600, 512, 0].map(|size| PackedFile::data("f", vec![b'x'; size]));
        let packed = tar_gz(&files, &PACKING).unwrap();
        let mut archive = Vec::new();
        flate2::read::GzDecoder::new(&packed[..])
            .read_to_end(&mut archive)
            .unwrap();
        assert_eq!(archive.len(), 512 * (3 + 2 + 1 + 2));
        assert_eq!(&archive[512 + 599..512 + 601], b"x\0");
    }

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let file = PackedFile::data(&"a".repeat(101), "");
        let error = tar_gz(&[file], &PACKING).unwrap_err();
        assert!(error.contains("1 to 100 bytes"), "{error}");
    }
}
