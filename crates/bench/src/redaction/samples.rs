//! Secrets of the shapes that people have, and texts of the kinds that programs print. The same in every run.

use std::fmt::Write;

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &[u8] = b"0123456789abcdef";
const PASSWORD: &[u8] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789!$%&/()=?*+#'\"\\<>@:; ";
const WORDS: [&str; 24] = [
    "compiling",
    "error",
    "request",
    "token",
    "secret",
    "password",
    "the",
    "src/server/handlers.rs",
    "warning",
    "unused",
    "test",
    "passed",
    "connection",
    "https://example.org/path?query=1",
    "id",
    "retry",
    "Bearer",
    "build",
    "target/debug/deps",
    "ok",
    "0x7ffd",
    "key",
    "of",
    "in",
];

/// Numbers that look random and are always the same ones.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() >> 33) as usize % bound
    }

    pub fn text(&mut self, alphabet: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }
}

/// Tokens, keys, passwords, URLs, documents: as they come from those who issue them.
pub fn secrets(count: usize) -> Vec<String> {
    let mut dice = Dice::new(6);
    (0..count).map(|index| secret(&mut dice, index)).collect()
}

fn secret(dice: &mut Dice, index: usize) -> String {
    match index % 12 {
        0 => format!("ghp_{}", dice.text(LETTERS, 36)),
        1 => format!("sk-proj-{}", dice.text(LETTERS, 48)),
        2 => format!("AKIA{}", dice.text(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)),
        3 => dice.text(BASE64, 40),
        4 => dice.text(HEX, 64),
        5 => format!("postgres://app:{}@db.internal:5432/app?sslmode=require", dice.text(LETTERS, 20)),
        6 => dice.text(PASSWORD, 16),
        7 => format!("eyJ{}.eyJ{}.{}", dice.text(LETTERS, 33), dice.text(LETTERS, 120), dice.text(LETTERS, 43)),
        8 => format!("{}-{}-{}-{}-{}", dice.text(HEX, 8), dice.text(HEX, 4), dice.text(HEX, 4), dice.text(HEX, 4), dice.text(HEX, 12)),
        9 => format!("xoxb-{}-{}-{}", dice.text(b"0123456789", 12), dice.text(b"0123456789", 13), dice.text(LETTERS, 24)),
        10 => pem(dice, if index == 10 { 1600 } else { 300 }),
        _ => document(dice),
    }
}

/// A private key of so many base64 digits.
pub fn pem(dice: &mut Dice, digits: usize) -> String {
    let body = dice.text(BASE64, digits);
    let mut text = String::from("-----BEGIN PRIVATE KEY-----\n");
    for line in body.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text + "-----END PRIVATE KEY-----\n"
}

fn document(dice: &mut Dice) -> String {
    let key = pem(dice, 400).replace('\n', "\\n");
    let (id, mail) = (dice.text(HEX, 40), dice.text(LETTERS, 12));
    format!(
        "{{\n  \"type\": \"service_account\",\n  \"private_key_id\": \"{id}\",\n  \"private_key\": \"{key}\",\n  \"client_email\": \"{mail}@example.org\"\n}}"
    )
}

/// What a stream is made of.
pub fn texts(bytes: usize) -> Vec<(&'static str, Vec<u8>)> {
    vec![("build log", log(bytes)), ("json", json(bytes)), ("base64", base64(bytes)), ("random bytes", random(bytes))]
}

fn log(bytes: usize) -> Vec<u8> {
    let (mut dice, mut text) = (Dice::new(1), String::with_capacity(bytes + 256));
    while text.len() < bytes {
        let _ = write!(text, "2026-11-17T12:{:02}:{:02}.{:06}Z ", dice.below(60), dice.below(60), dice.below(1_000_000));
        for _ in 0..4 + dice.below(10) {
            text.push_str(WORDS[dice.below(WORDS.len())]);
            text.push(' ');
        }
        text.push('\n');
    }
    text.truncate(bytes);
    text.into_bytes()
}

fn json(bytes: usize) -> Vec<u8> {
    let (mut dice, mut text) = (Dice::new(2), String::with_capacity(bytes + 256));
    while text.len() < bytes {
        let (id, name) = (dice.text(HEX, 32), WORDS[dice.below(WORDS.len())]);
        let _ = write!(
            text,
            "{{\"id\":\"{id}\",\"name\":\"{name}\",\"count\":{},\"tags\":[\"a\\u00e4b\",\"c\"],\"ok\":true}},",
            dice.below(99999)
        );
    }
    text.truncate(bytes);
    text.into_bytes()
}

fn base64(bytes: usize) -> Vec<u8> {
    let (mut dice, mut text) = (Dice::new(3), String::with_capacity(bytes + 80));
    while text.len() < bytes {
        text.push_str(&dice.text(BASE64, 76));
        text.push('\n');
    }
    text.truncate(bytes);
    text.into_bytes()
}

fn random(bytes: usize) -> Vec<u8> {
    let mut dice = Dice::new(4);
    (0..bytes.div_ceil(8)).flat_map(|_| dice.number().to_le_bytes()).take(bytes).collect()
}

/// What takes longest: beginnings of values, values but for their last byte, nothing but values, and lines without anything in them.
pub fn worst(secrets: &[String], bytes: usize) -> Vec<(&'static str, Vec<u8>)> {
    let mut dice = Dice::new(5);
    let mut of = |part: &dyn Fn(&[u8]) -> Vec<u8>| {
        let mut text = Vec::with_capacity(bytes + (8 << 10));
        while text.len() < bytes {
            text.extend(part(secrets[dice.below(secrets.len())].as_bytes()));
        }
        text.truncate(bytes);
        text
    };
    vec![
        ("worst: the first five bytes of values", of(&|secret| secret[..5].to_vec())),
        ("worst: values but for their last byte", of(&|secret| [&secret[..secret.len() - 1], b"\xff"].concat())),
        ("worst: nothing but values", of(&|secret| [secret, b" "].concat())),
        ("worst: empty lines", of(&|_| b"\n".repeat(1024))),
    ]
}
