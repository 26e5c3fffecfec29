//! Against a reference that is too simple to be wrong: every pattern is looked for at every byte of the whole text.

mod random;
mod reference;

/// Numbers that look random; a seed repeats a run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    pub fn of<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    pub fn bytes(&mut self, alphabet: &[u8], length: usize) -> Vec<u8> {
        (0..length).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

/// How many rounds a proof takes.
pub fn rounds(usual: u64) -> u64 {
    if std::env::var_os("STEAD_PROVE").is_some() { usual * 50 } else { usual }
}
