//! The stream as patterns are looked for in it: without line breaks. Encoders break lines where they like, a terminal puts `\r\n` where a
//! program wrote `\n`, and a value of many lines is still itself.

const fn is_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

pub fn without_breaks(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| !is_break(*byte)).collect()
}

/// The most bytes of line breaks in a row.
pub fn longest_run(bytes: &[u8]) -> usize {
    bytes.split(|byte| !is_break(*byte)).map(<[u8]>::len).max().unwrap_or_default()
}

/// Looked at together: as many as the compiler compares at once.
const BLOCK: usize = 32;

/// A part of the stream without its line breaks, and where they were.
#[derive(Default)]
pub struct View {
    pub bytes: Vec<u8>,
    /// For each byte that was left out, before which position.
    left_out: Vec<u32>,
    /// Line breaks in a row at the end.
    run: usize,
}

impl View {
    /// More than `most` line breaks in a row are not left out: no pattern goes on after so many, and nothing is held back for it.
    pub fn extend(&mut self, piece: &[u8], most: usize) {
        let (blocks, rest) = piece.as_chunks::<BLOCK>();
        for block in blocks {
            if block.iter().fold(false, |found, byte| found | is_break(*byte)) {
                self.extend_each(block, most);
            } else {
                self.bytes.extend_from_slice(block);
                self.run = 0;
            }
        }
        self.extend_each(rest, most);
    }

    fn extend_each(&mut self, bytes: &[u8], most: usize) {
        for byte in bytes {
            if !is_break(*byte) {
                self.run = 0;
                self.bytes.push(*byte);
            } else if self.run < most {
                self.run += 1;
                self.left_out.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
            } else {
                self.bytes.push(*byte);
            }
        }
    }

    /// Where a byte of the view stands in the stream.
    pub fn place(&self, position: usize) -> usize {
        position + self.left_out.partition_point(|before| *before as usize <= position)
    }

    /// Everything up to a position is done with.
    pub fn forget(&mut self, position: usize) {
        self.bytes.drain(..position);
        let from = self.left_out.partition_point(|before| *before as usize <= position);
        self.left_out.drain(..from);
        for before in &mut self.left_out {
            *before -= position as u32;
        }
    }

    /// As at the beginning of a stream.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.left_out.clear();
        self.run = 0;
    }
}
