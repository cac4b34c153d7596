//! Machine: the bytes of one file of the write-ahead log: a line with the format, then frames.
//!
//! A frame is a header and a payload: transactions, one line of JSON each. One append writes one frame.

use std::ops::Range;

use flate2::Crc;

/// The first line of a file, which distinguishes it from later formats.
pub(super) const FORMAT: &[u8] = b"steersman-apiserver-wal/1\n";
/// The first bytes of a frame. The first byte is not zero, so a frame never begins with a sector that was not written.
const MAGIC: [u8; 4] = *b"WAL\0";
/// The length of a frame's header, in bytes: magic, length and checksum of the payload, checksum of these three.
const HEADER: usize = 16;
/// The unit in which a disk writes: after a power cut each sector is written or zero.
const SECTOR: usize = 512;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) offset: usize,
    pub(super) payload: Range<usize>,
}

/// How a file of the log ends, behind its last readable frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileEnd {
    Whole,
    /// The last append is incomplete; it begins at this offset.
    Torn(usize),
    /// The bytes from this offset on are not what was written; the text says what is wrong with them.
    Damaged(usize, &'static str),
}

/// Encodes a frame; `None` for a payload of 4 GiB or more.
pub(super) fn encode(payload: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(payload.len()).ok()?;
    let mut frame = Vec::with_capacity(HEADER + payload.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&checksum(payload).to_le_bytes());
    frame.extend_from_slice(&checksum(&frame).to_le_bytes());
    frame.extend_from_slice(payload);
    Some(frame)
}

/// Finds all complete frames of a file, and tells how the file ends (WAL-2).
///
/// The bytes after the last frame are an incomplete append only if a crash can leave them: they are too short, or lack
/// a sector. All other bytes are damage, even at the end: they may have been a write that was answered.
pub(super) fn scan(bytes: &[u8]) -> (Vec<Frame>, FileEnd) {
    let mut frames = Vec::new();
    if bytes.len() < FORMAT.len() && FORMAT.starts_with(bytes) {
        return (frames, FileEnd::Torn(0));
    }
    if !bytes.starts_with(FORMAT) {
        let end = unreadable(bytes, 0, "it is no log of this version of the program");
        return (frames, end);
    }
    let mut offset = FORMAT.len();
    let end = loop {
        let rest = &bytes[offset..];
        if rest.is_empty() {
            break FileEnd::Whole;
        }
        let Some((length, expected)) = header(rest) else {
            break unreadable(bytes, offset, "the header of a record is wrong");
        };
        let start = offset + HEADER;
        let payload = start..start.saturating_add(length);
        match bytes.get(payload.clone()) {
            None => break unreadable(bytes, offset, "a record is incomplete, but others follow"),
            Some(content) if checksum(content) != expected => {
                break unreadable(bytes, offset, "the checksum of a record is wrong");
            }
            Some(_) => {}
        }
        let next = payload.end;
        frames.push(Frame { offset, payload });
        offset = next;
    };
    (frames, end)
}

/// Decides whether the bytes after the last frame, from `offset` on, are an incomplete append or damage.
fn unreadable(bytes: &[u8], offset: usize, why: &'static str) -> FileEnd {
    let rest = &bytes[offset..];
    let is_short = match header(rest) {
        Some((length, _)) => rest.len() - HEADER < length,
        None => rest.len() < HEADER && MAGIC.iter().zip(rest).all(|(magic, byte)| magic == byte),
    };
    let is_torn = is_short || lacks_sector(bytes, offset);
    if is_torn && !has_header(rest.get(1..).unwrap_or_default()) {
        FileEnd::Torn(offset)
    } else {
        FileEnd::Damaged(offset, why)
    }
}

/// Returns whether a sector of the file, or the rest of the sector at `offset`, has only zeros, as after a power cut
/// before the disk wrote the sector.
fn lacks_sector(bytes: &[u8], offset: usize) -> bool {
    let mut at = offset;
    while at < bytes.len() {
        let end = (at + 1).next_multiple_of(SECTOR).min(bytes.len());
        if bytes[at..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        at = end;
    }
    false
}

fn has_header(bytes: &[u8]) -> bool {
    bytes.windows(HEADER).any(|window| header(window).is_some())
}

/// Returns the length of the payload and its checksum; `None` if the bytes do not begin with a valid header.
fn header(bytes: &[u8]) -> Option<(usize, u32)> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (payload, rest) = rest.split_first_chunk::<4>()?;
    let (own, _) = rest.split_first_chunk::<4>()?;
    if *magic != MAGIC || checksum(&bytes[..HEADER - 4]) != u32::from_le_bytes(*own) {
        return None;
    }
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    Some((length, u32::from_le_bytes(*payload)))
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file with these payloads, and the offset of the end of each frame.
    fn file(payloads: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = FORMAT.to_vec();
        let mut ends = vec![bytes.len()];
        for payload in payloads {
            bytes.extend(encode(payload).unwrap());
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    const SHORT: [&[u8]; 3] = [b"{\"a\":1}\n", b"{\"b\":2}\n{\"c\":3}\n", b"{\"d\":4}\n"];

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let (bytes, ends) = file(&SHORT);
        let (frames, end) = scan(&bytes);
        assert_eq!(end, FileEnd::Whole);
        for (at, frame) in frames.iter().enumerate() {
            assert_eq!((frame.offset, frame.payload.end), (ends[at], ends[at + 1]));
            assert_eq!(bytes[frame.payload.clone()], *SHORT[at]);
        }
        assert_eq!(frames.len(), 3);
    }

    // WAL-2: tries every prefix of every append, as a crash may leave it.
    #[test]
    fn every_prefix_of_an_append_is_torn_and_loses_nothing_before_it() {
        let (bytes, ends) = file(&SHORT);
        for length in 0..bytes.len() {
            let (frames, end) = scan(&bytes[..length]);
            let whole = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(frames.len(), whole.saturating_sub(1), "{length}");
            let last = ends.iter().rev().find(|end| **end <= length);
            let expected = match last {
                Some(last) if *last == length => FileEnd::Whole,
                last => FileEnd::Torn(last.copied().unwrap_or_default()),
            };
            assert_eq!(end, expected, "{length}");
        }
    }

    // WAL-2: flips every bit of a file, also in its last frame.
    #[test]
    fn every_flipped_bit_is_damage_at_its_record() {
        let (bytes, ends) = file(&SHORT);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (frames, end) = scan(&flipped);
            let record = ends.iter().rposition(|end| *end <= bit / 8);
            let offset = record.map_or(0, |record| ends[record]);
            assert!(
                matches!(end, FileEnd::Damaged(at, _) if at == offset),
                "bit {bit}: {end:?}"
            );
            assert_eq!(frames.len(), record.unwrap_or_default(), "bit {bit}");
        }
    }

    // WAL-2: after a power cut, sectors of the last append may be missing, in any combination.
    #[test]
    fn an_append_that_lacks_sectors_is_torn_only_at_the_end() {
        let long = "x".repeat(5 * SECTOR).into_bytes();
        let (bytes, ends) = file(&[SHORT[0], &long, SHORT[2]]);
        let (start, after) = (ends[1], ends[2]);
        let sectors = |offset: usize| offset.next_multiple_of(SECTOR);
        let first_whole = sectors(start) / SECTOR;
        let count = after.div_ceil(SECTOR) - first_whole + 1;
        for missing in 1_u32..1 << count {
            let mut cut = bytes.clone();
            for sector in (0..count).filter(|sector| missing & (1 << sector) != 0) {
                let from = ((first_whole + sector - 1) * SECTOR).max(start);
                let to = ((first_whole + sector) * SECTOR).min(after);
                cut[from..to].fill(0);
            }
            let (frames, end) = scan(&cut[..after]);
            assert_eq!(
                (frames.len(), end),
                (1, FileEnd::Torn(start)),
                "{missing:b}"
            );
            let (_, end) = scan(&cut);
            assert!(
                matches!(end, FileEnd::Damaged(at, _) if at == start),
                "{missing:b}: {end:?}"
            );
        }
    }

    #[test]
    fn bytes_after_the_last_record_are_damage() {
        let (mut bytes, ends) = file(&SHORT);
        bytes.extend_from_slice(b"a line that someone added\n");
        let (frames, end) = scan(&bytes);
        assert_eq!(frames.len(), 3);
        assert!(matches!(end, FileEnd::Damaged(at, _) if at == ends[3]));
    }
}
