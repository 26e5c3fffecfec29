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
        let mut from = 0;
        for at in memchr::memchr2_iter(b'\n', b'\r', piece) {
            if from < at {
                self.bytes.extend_from_slice(&piece[from..at]);
                self.run = 0;
            }
            if self.run < most {
                self.run += 1;
                self.left_out.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
            } else {
                self.bytes.push(piece[at]);
            }
            from = at + 1;
        }
        if from < piece.len() {
            self.bytes.extend_from_slice(&piece[from..]);
            self.run = 0;
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
