//! Paths and field names with `{project}` and `{name}` in them.

/// Something that a project's handle and a secret's name are put into. Both are of letters that mean nothing in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("is empty")]
    Empty,
    #[error("knows only {{project}} and {{name}} in braces")]
    Braces,
    #[error("has a step that is empty, `.` or `..`")]
    Step,
    #[error("may hold letters, digits and any of - _ . ~ / beside {{project}} and {{name}}")]
    Letters,
}

impl Template {
    /// Steps that are joined by slashes.
    pub fn path(text: &str) -> Result<Self, TemplateError> {
        let text = text.trim_matches('/');
        if text.is_empty() {
            return Err(TemplateError::Empty);
        }
        let plain = text.replace("{project}", "p").replace("{name}", "N");
        if plain.contains(['{', '}']) {
            return Err(TemplateError::Braces);
        }
        if plain.split('/').any(|step| step.is_empty() || step == "." || step == "..") {
            return Err(TemplateError::Step);
        }
        if !plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte)) {
            return Err(TemplateError::Letters);
        }
        Ok(Self(text.to_owned()))
    }

    /// A word that may hold anything else.
    pub fn word(text: &str) -> Result<Self, TemplateError> {
        if text.is_empty() {
            return Err(TemplateError::Empty);
        }
        let plain = text.replace("{project}", "p").replace("{name}", "N");
        if plain.contains(['{', '}']) { Err(TemplateError::Braces) } else { Ok(Self(text.to_owned())) }
    }

    /// Whether every name has its own.
    pub fn tells_names_apart(&self) -> bool {
        self.0.contains("{name}")
    }

    pub fn fill(&self, project: &str, name: &str) -> String {
        self.0.replace("{project}", project).replace("{name}", name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_nowhere_else() {
        let path = Template::path("/stead/{project}/{name}/").unwrap();
        assert_eq!(path.fill("acme", "API_KEY"), "stead/acme/API_KEY");
        assert!(path.tells_names_apart() && !Template::path("stead/{project}").unwrap().tells_names_apart());
        for (bad, why) in [
            ("", TemplateError::Empty),
            ("/", TemplateError::Empty),
            ("a//b", TemplateError::Step),
            ("a/../b", TemplateError::Step),
            ("./a", TemplateError::Step),
            ("a/{version}", TemplateError::Braces),
            ("a/{name", TemplateError::Braces),
            ("a?x=1", TemplateError::Letters),
            ("a%2e%2e", TemplateError::Letters),
            ("a b", TemplateError::Letters),
        ] {
            assert_eq!(Template::path(bad), Err(why), "{bad}");
        }
        assert_eq!(Template::word("{name}").unwrap().fill("acme", "KEY"), "KEY");
        assert!(Template::word("").is_err() && Template::word("{other}").is_err());
    }
}
