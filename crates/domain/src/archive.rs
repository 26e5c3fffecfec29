//! What the archive of an environment says of itself: the definition, the checkpoints, and which of its layers each of them has.
//!
//! Whoever reads one trusts it with nothing: every number is looked at before it is used.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::checkpoint::{CheckpointReason, OnRunning};
use crate::definition::Spec;
use crate::environment::{EnvironmentMode, Lifetime, Purpose, RetentionPolicy, TemplateId};
use crate::error::{Code, Error, Result, parse_json};
use crate::names;
use crate::tags::{self, Tags};
use crate::time::Timestamp;

/// The one format that there is.
pub const FORMAT: u64 = 1;
/// The media type of the stream.
pub const MEDIA_TYPE: &str = "application/x-tar";

/// No manifest is longer.
pub const LARGEST: usize = 16 << 20;
pub const MOST_CHECKPOINTS: usize = 10_000;
const MOST_LAYERS: u64 = 20_000;
/// No environment sees more of them on top of each other.
const DEEPEST: usize = 401;

/// The first thing in an archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: u64,
    /// The version of Stead that wrote it.
    pub stead: String,
    /// No two archives have the same.
    pub archive_id: String,
    pub exported_at: Timestamp,
    pub environment: ArchivedEnvironment,
    /// From the oldest to the latest.
    pub checkpoints: Vec<ArchivedCheckpoint>,
    /// The checkpoint that the environment's files are of.
    pub present: u64,
    /// How many layers follow.
    pub layers: u64,
    /// What the host's system was that some of the layers lie over; none when no layer does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

/// What an environment is without its files; nothing that is secret, and nobody who owns it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedEnvironment {
    pub name: String,
    pub environment_mode: EnvironmentMode,
    pub lifetime: Lifetime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<TemplateId>,
    pub retention_policy: RetentionPolicy,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    pub spec: Spec,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedCheckpoint {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// An earlier one of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    pub created_at: Timestamp,
    pub reason: CheckpointReason,
    /// Some of it may have been lost before it was on the disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub torn: bool,
    /// The setup script of the definition had run to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set_up: bool,
    /// Numbers of layers, from the top down.
    pub layers: Vec<u64>,
}

/// What an export may be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportRequest {
    /// When processes run: `busy` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_running: Option<OnRunning>,
}

/// What an import may be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportRequest {
    /// The one in the archive when it is none.
    pub name: Option<String>,
    /// Accept a posture that the provider does not enforce.
    pub allow_unenforced: bool,
    /// Mount what the definition names of the caller's own directories; else only what the operator allowed.
    pub allow_mounts: bool,
}

/// Something that is wrong with an archive.
pub fn invalid(why: impl Into<String>) -> Error {
    Error::new(Code::InvalidArchive, why)
        .suggestion("export it again with `stead env export ENVIRONMENT --archive FILE`, and send all of it")
}

impl Manifest {
    /// Reads one that nobody vouches for.
    pub fn read(text: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Beginning {
            format: u64,
        }
        // Of another format nothing else is understood.
        let beginning: Beginning = serde_json::from_slice(text).map_err(|_| invalid("the archive does not say of which format it is"))?;
        if beginning.format != FORMAT {
            let message = format!("the archive is of format {}, and this server reads format {FORMAT}", beginning.format);
            return Err(Error::new(Code::ArchiveUnsupported, message)
                .suggestion("import it with the version of Stead that wrote it, or a later one"));
        }
        let manifest: Self = parse_json(text).map_err(|error| invalid(format!("the archive's manifest: {}", error.message())))?;
        manifest.check().map_err(|error| invalid(format!("the archive's manifest: {}", error.message())))?;
        Ok(manifest)
    }

    /// As it is written. One that no server would read is not written.
    pub fn write(&self) -> Result<Vec<u8>> {
        let too_many = |error: Error| {
            Error::new(Code::ArchiveUnsupported, format!("the environment does not fit into an archive: {}", error.message()))
                .suggestion("delete checkpoints that nobody needs (`stead checkpoint delete`), and try again")
        };
        self.check().map_err(too_many)?;
        let text = serde_json::to_vec(self).map_err(Error::internal)?;
        if text.len() > LARGEST {
            return Err(too_many(Error::field("checkpoints", "there are too many of them")));
        }
        Ok(text)
    }

    fn check(&self) -> Result<()> {
        names::check_text("stead", &self.stead, 64)?;
        names::check_text("archive_id", &self.archive_id, 64)?;
        names::check_name("environment.name", &self.environment.name)?;
        tags::check(&self.environment.tags)?;
        if let Some(system) = &self.system {
            names::check_text("system", system, 128)?;
        }
        if self.layers > MOST_LAYERS {
            return Err(Error::field("layers", format!("are more than {MOST_LAYERS}")));
        }
        if self.checkpoints.len() > MOST_CHECKPOINTS {
            return Err(Error::field("checkpoints", format!("are more than {MOST_CHECKPOINTS}")));
        }
        let mut used: BTreeSet<u64> = BTreeSet::new();
        for (number, checkpoint) in self.checkpoints.iter().enumerate() {
            checkpoint.check(number, self.layers)?;
            used.extend(&checkpoint.layers);
        }
        if self.present >= self.checkpoints.len() as u64 {
            return Err(Error::field("present", "is no checkpoint of the list"));
        }
        if (used.len() as u64) < self.layers {
            return Err(Error::field("layers", "are more than the checkpoints have"));
        }
        Ok(())
    }
}

impl ArchivedCheckpoint {
    fn check(&self, number: usize, layers: u64) -> Result<()> {
        let field = |name: &str| format!("checkpoints[{number}].{name}");
        if let Some(name) = &self.name {
            names::check_name(&field("name"), name)?;
        }
        // Only earlier ones, so that nothing is its own ancestor.
        if self.parent.is_some_and(|parent| parent >= number as u64) {
            return Err(Error::field(field("parent"), "is no earlier checkpoint"));
        }
        if self.layers.is_empty() || self.layers.len() > DEEPEST {
            return Err(Error::field(field("layers"), format!("must be 1 to {DEEPEST}")));
        }
        if self.layers.iter().any(|layer| *layer >= layers) {
            return Err(Error::field(field("layers"), "name a layer that the archive does not have"));
        }
        if self.layers.iter().collect::<BTreeSet<_>>().len() < self.layers.len() {
            return Err(Error::field(field("layers"), "name a layer twice"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn manifest() -> Value {
        json!({
            "format": 1, "stead": "0.1.0", "archive_id": "a", "exported_at": "2026-05-04T10:00:00Z",
            "environment": {"name": "web", "environment_mode": "manual", "lifetime": "explicit", "retention_policy": "manual", "spec": {}},
            "checkpoints": [
                {"created_at": "2026-05-04T10:00:00Z", "reason": "requested", "layers": [0]},
                {"created_at": "2026-05-04T10:00:01Z", "reason": "export", "parent": 0, "layers": [1, 0], "name": "two"},
            ],
            "present": 1, "layers": 2,
        })
    }

    fn read(value: &Value) -> Result<Manifest> {
        Manifest::read(value.to_string().as_bytes())
    }

    #[test]
    fn what_is_written_is_read() {
        let first = read(&manifest()).unwrap();
        assert_eq!(Manifest::read(&first.write().unwrap()).unwrap(), first);
    }

    #[test]
    fn every_number_is_looked_at() {
        for (pointer, wrong) in [
            ("/present", json!(2)),
            ("/present", json!(-1)),
            ("/layers", json!(3)),
            ("/layers", json!(1)),
            ("/layers", json!(u64::MAX)),
            ("/checkpoints/0/layers", json!([])),
            ("/checkpoints/0/layers", json!([0, 0])),
            ("/checkpoints/0/layers", json!([2])),
            ("/checkpoints/1/parent", json!(1)),
            ("/checkpoints/1/name", json!("../x")),
            ("/checkpoints/1/reason", json!("because")),
            ("/environment/name", json!("")),
            ("/environment/name", json!("a/b")),
            ("/environment/spec", json!({"unknown": 1})),
            ("/environment/tags", json!({"stead:x": "y"})),
            ("/format", json!("1")),
        ] {
            let mut value = manifest();
            match value.pointer_mut(pointer) {
                Some(place) => *place = wrong.clone(),
                None => value["environment"]["tags"] = wrong.clone(),
            }
            assert_eq!(read(&value).unwrap_err().code(), Code::InvalidArchive, "{pointer} {wrong}");
        }
        let mut unknown = manifest();
        unknown["more"] = json!(1);
        assert_eq!(read(&unknown).unwrap_err().code(), Code::InvalidArchive);
        assert_eq!(Manifest::read(b"no json").unwrap_err().code(), Code::InvalidArchive);
    }

    #[test]
    fn another_format_is_named_whatever_else_it_holds() {
        let error = Manifest::read(br#"{"format": 2, "everything": "else"}"#).unwrap_err();
        assert_eq!(error.code(), Code::ArchiveUnsupported);
        assert!(error.message().contains("format 2"), "{error}");
    }
}
