//! Arguments that are one of several words, known to help and completion.

/// A parser for one of the domain's enums of words.
macro_rules! one_of {
    ($type:ty) => {{
        use clap::builder::TypedValueParser;
        clap::builder::PossibleValuesParser::new(<$type>::ALL.iter().map(|value| value.as_str())).try_map(|text| text.parse::<$type>())
    }};
}
pub(crate) use one_of;

/// `key=value`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it should look like key=value".to_owned()),
    }
}
