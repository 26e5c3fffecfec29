//! An API key in memory.

use std::fmt;

/// Not `Display`, and without its text in debug output: a key is only ever sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The key itself, for the one header and the one file that hold it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The part that may be shown.
    pub fn prefix(&self) -> String {
        stead_domain::api_key::prefix(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_holds_no_key() {
        let key = Key::new("stk_abcdefghijklmnop");
        assert_eq!(format!("{key:?}"), "Key(…)");
        assert_eq!(key.prefix(), "stk_abcdef");
    }
}
