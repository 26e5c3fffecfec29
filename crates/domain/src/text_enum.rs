//! Enums that are words on the wire and in the store.

/// Makes an enum with one word per variant, and everything that turns one into the other.
macro_rules! text_enum {
    ($(#[$documentation:meta])* pub enum $name:ident { $($(#[$note:meta])* $variant:ident = $text:literal $(| $alias:literal)*,)* }) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$note])* #[serde(rename = $text $(, alias = $alias)*)] $variant,)*
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        // By hand: the derive does not see words that come through a macro.
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some([$($text),*]))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text $(| $alias)* => Ok(Self::$variant),)*
                    _ => Err($crate::error::Error::field(stringify!($name), format!("unknown value `{}`, expected one of {}",
                        text.chars().take(64).collect::<String>(), [$(concat!("`", $text, "`"),)*].join(", ")))),
                }
            }
        }
    };
}
