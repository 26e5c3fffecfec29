//! A statement put together from fixed fragments, for lists with optional filters. Values never become part of the text.

use crate::value::Value;

pub struct Sql {
    text: String,
    values: Vec<Value>,
}

impl Sql {
    pub fn new(start: &'static str) -> Self {
        Self { text: start.to_owned(), values: Vec::new() }
    }

    #[must_use]
    pub fn push(mut self, fragment: &'static str) -> Self {
        self.text.push_str(fragment);
        self
    }

    /// Adds a fragment whose one `?` stands for the value.
    #[must_use]
    pub fn bind(mut self, fragment: &'static str, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        let placeholder = format!("${}", self.values.len());
        self.text.push_str(&fragment.replacen('?', &placeholder, 1));
        self
    }

    /// The same, when there is a value.
    #[must_use]
    pub fn bind_some(self, fragment: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.bind(fragment, value),
            None => self,
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_gets_its_own_placeholder() {
        let sql = Sql::new("SELECT 1 WHERE a = 'x'").bind(" AND b = ?", 1i64).bind_some(" AND c = ?", None::<i64>).bind(" AND d < ?", "t");
        assert_eq!(sql.text(), "SELECT 1 WHERE a = 'x' AND b = $1 AND d < $2");
        assert_eq!(sql.values(), [Value::Integer(Some(1)), Value::Text(Some("t".to_owned()))]);
    }
}
