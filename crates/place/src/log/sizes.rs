//! How much is kept of all processes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use stead_domain::ids::{EnvironmentId, ProcessId};

/// What each process of each environment occupies on the disk, below the directory of all logs. Whatever goes meanwhile is left out.
pub fn sizes(all: &Path) -> io::Result<Vec<(EnvironmentId, ProcessId, u64)>> {
    let mut found = Vec::new();
    for (name, path, _) in entries(all)? {
        let Ok(environment) = name.parse::<EnvironmentId>() else { continue };
        let mut processes: BTreeMap<ProcessId, u64> = BTreeMap::new();
        for (name, path, size) in entries(&path)? {
            let Some((id, kind)) = name.split_once('.') else { continue };
            let Ok(process) = id.parse::<ProcessId>() else { continue };
            let more: u64 = if kind == "more" { entries(&path)?.iter().map(|(.., size)| size).sum() } else { 0 };
            *processes.entry(process).or_default() += size + more;
        }
        found.extend(processes.into_iter().map(|(process, size)| (environment, process, size)));
    }
    Ok(found)
}

fn entries(directory: &Path) -> io::Result<Vec<(String, std::path::PathBuf, u64)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(Vec::new()),
        outcome => outcome?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata()) {
            found.push((name, entry.path(), metadata.blocks() * 512));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_segment_counts_for_its_process() {
        let directory = tempfile::TempDir::new().unwrap();
        let context = stead_testing::context(1).0;
        let (environment, process) = (EnvironmentId::new(&context), ProcessId::new(&context));
        assert!(sizes(&directory.path().join("none")).unwrap().is_empty());
        let logs = directory.path().join(environment.to_string());
        fs::create_dir_all(logs.join(format!("{process}.more"))).unwrap();
        fs::create_dir(directory.path().join("foreign")).unwrap();
        fs::write(logs.join(format!("{process}.log")), vec![1; 100_000]).unwrap();
        fs::write(logs.join(format!("{process}.more/{:020}.log", 100_000)), vec![1; 100_000]).unwrap();
        let found = sizes(directory.path()).unwrap();
        assert_eq!((found.len(), found[0].0, found[0].1), (1, environment, process));
        assert!((200_000..300_000).contains(&found[0].2), "{}", found[0].2);
    }
}
