//! Where secrets come from beside the store.

use std::sync::Arc;

use async_trait::async_trait;
use stead_domain::secret::SecretValue;

use crate::App;

/// Somebody who keeps secrets, and gives them out by name.
#[async_trait]
pub trait SecretSource: Send + Sync {
    /// For people: what kind it is, and where.
    fn describe(&self) -> String;

    /// Where exactly a secret is looked for, for people.
    fn place_of(&self, project: &str, name: &str) -> String;

    /// The present value; none when there is no such secret.
    async fn fetch(&self, project: &str, name: &str) -> Result<Option<SecretValue>, SourceFailure>;
}

/// Why there is no answer. It never holds a value or a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceFailure {
    pub message: String,
    /// What helps.
    pub suggestion: String,
}

/// Which names come from a source.
#[derive(Clone)]
pub struct SourceRule {
    /// The handle of the only project that it is for; all of them when it does not say.
    pub project: Option<String>,
    /// How the names begin.
    pub prefix: String,
    pub source: Arc<dyn SecretSource>,
}

impl SourceRule {
    fn fits(&self, project: &str, name: &str) -> bool {
        self.project.as_deref().is_none_or(|only| only == project) && name.starts_with(&self.prefix)
    }
}

impl App {
    /// None when the store itself keeps the secret.
    pub(crate) fn source_of(&self, project: &str, name: &str) -> Option<&Arc<dyn SecretSource>> {
        self.secret_sources.iter().find(|rule| rule.fits(project, name)).map(|rule| &rule.source)
    }
}
