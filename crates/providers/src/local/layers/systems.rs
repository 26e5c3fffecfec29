//! What the layers of a system lie over: parts of the host's, or an image.

use std::path::{Path, PathBuf};

use stead_sandbox::Skeleton;

use super::PARTS;
use crate::local::images::Image;

/// The systems that one environment's layers may lie over.
pub struct Systems {
    pub skeleton: PathBuf,
    /// Where images are unpacked.
    pub images: PathBuf,
    /// The one that the definition names now.
    pub image: Option<Image>,
}

/// What the layers of an image are called, in the part of a layer that is the system's.
pub fn name_of(digest: Option<&str>) -> String {
    match digest {
        None => "image".to_owned(),
        Some(digest) => {
            let digest: String = digest.trim_start_matches("sha256:").chars().take(32).collect();
            format!("image-{digest}")
        }
    }
}

impl Systems {
    /// The topmost first, and empty below a workspace. None where it is not known, or gone.
    pub fn below(&self, part: &Path) -> Option<Vec<PathBuf>> {
        if part == Path::new(PARTS[0]) {
            return Some(Vec::new());
        }
        let name = part.strip_prefix(PARTS[1]).ok()?.iter().next()?.to_str()?;
        if name == "image" || name.starts_with("image-") {
            return self.image_of(name).map(|root| vec![root]);
        }
        Skeleton::open(&self.skeleton)?.below_system(name)
    }

    fn image_of(&self, name: &str) -> Option<PathBuf> {
        if let Some(image) = self.image.as_ref().filter(|image| name_of(image.digest.as_deref()) == name && image.root.is_dir()) {
            return Some(image.root.clone());
        }
        // An earlier definition's, if it is still there.
        let digest = name.strip_prefix("image-")?;
        let found = std::fs::read_dir(&self.images).ok()?.flatten();
        let mut found = found.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(digest)));
        found.next().map(|entry| entry.path()).filter(|root| root.is_dir())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let directory = tempfile::TempDir::new().unwrap();
        let (skeleton, images) = (directory.path().join("skeleton"), directory.path().join("images"));
        let digest = "a".repeat(64);
        let image = directory.path().join("image");
        for made in [&image, &skeleton.join("etc"), &skeleton.join("system-etc"), &images.join(&digest)] {
            fs::create_dir_all(made).unwrap();
        }
        let systems = Systems {
            skeleton: skeleton.clone(),
            images: images.clone(),
            image: Some(Image { root: image.clone(), digest: None, unpacked: false }),
        };
        let below = |part: &str| systems.below(Path::new(part));
        assert_eq!(below("workspace"), Some(Vec::new()));
        assert_eq!(below("system/etc/upper"), Some(vec![skeleton.join("system-etc"), skeleton.join("etc")]));
        assert_eq!(below("system/image/upper"), Some(vec![image]));
        assert_eq!(below(&format!("system/image-{}/upper", "a".repeat(32))), Some(vec![images.join(&digest)]));
        assert_eq!(below(&format!("system/image-{}/upper", "b".repeat(32))), None);
        assert_eq!(below("system/nothing/upper"), None);
    }
}
