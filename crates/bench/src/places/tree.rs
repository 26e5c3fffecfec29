//! Trees of text, the same in every run.

use std::fs::{self, File};
use std::io::{BufWriter, Result, Write};
use std::path::Path;

/// In one line of many thousands.
pub const RARE: &str = "quicksilver";
/// In every tenth line or so.
pub const COMMON: &str = "harbour";
const RARELY: u64 = 50_000;
const WORDS: [&str; 24] = [
    "anchor", "bridge", "candle", "desert", "engine", "forest", "garden", "island", "jacket", "kettle", "ladder", "meadow", "needle",
    "orchard", "pepper", "quarry", "river", "saddle", "timber", "umbrella", "valley", "window", "yellow", "zephyr",
];

/// So many files, a hundred in each directory, with so many bytes each.
pub fn plant(root: &Path, files: usize, bytes_each: usize) -> Result<()> {
    let mut chance = Chance(4711);
    for number in 0..files {
        let directory = root.join(format!("d{}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&directory)?;
        }
        let mut file = BufWriter::new(File::create(directory.join(format!("f{number}.txt")))?);
        let mut left = bytes_each;
        while left > 0 {
            let line = line(&mut chance);
            let written = line.len().min(left);
            file.write_all(&line.as_bytes()[..written])?;
            left -= written;
        }
        file.flush()?;
    }
    Ok(())
}

fn line(chance: &mut Chance) -> String {
    let mut words: Vec<&str> = (0..6 + chance.below(6)).map(|_| WORDS[chance.below(WORDS.len() as u64) as usize]).collect();
    if chance.below(10) == 0 {
        words.push(COMMON);
    }
    if chance.below(RARELY) == 0 {
        words.push(RARE);
    }
    words.join(" ") + "\n"
}

/// Numbers that look random and are the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
