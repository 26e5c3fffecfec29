//! What is written down of a barrier.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use stead_app::PlaceError;
use stead_place::Warrant;
use stead_place::fence_file::{self, Raised};

use crate::house::House;

pub fn whoever_wakes_reads_it(directory: &Path) -> Result<(), String> {
    let house = House::new(directory);
    let (premises, old, new) = (house.environment(), house.warrant(1), house.warrant(2));
    house.works(&premises, old);
    assert!(!house.fence().exists(), "what is only done is not written down");
    house.run(house.place().sleep(premises.environment, true)).unwrap();
    house.barrier(&[&premises], new).unwrap();
    house.nobody_is_inside();
    assert_eq!(fs::metadata(house.fence()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fence_file::read(&house.fence()).unwrap(), Warrant { fence: 2, lease: new.lease });
    let somebody_else = house.warrant(2);
    for refused in [old, somebody_else] {
        assert!(matches!(house.run(house.place().start(&premises, &house.start(refused, "true"))), Err(PlaceError::Fenced)));
    }
    // Inside there is nothing of it.
    let look = house.start(new, "find / -name fence -type f 2>/dev/null | grep -v '^/proc\\|^/sys\\|^/usr' >&2; ls -a /workspace /runtime");
    house.begin(&premises, &look);
    house.end_of(&premises, look.id);
    let seen =
        house.run(house.place().read(premises.environment, look.id, 0, None, Some(stead_domain::process::OutputStream::Stderr), 1 << 16));
    assert!(seen.unwrap().frames.is_empty());
    house.run(house.place().sleep(premises.environment, true)).unwrap();
    // What cannot be understood is refused, and not taken for nothing.
    fs::write(house.fence(), "{\"fence\":").unwrap();
    match house.run(house.place().start(&premises, &house.start(new, "true"))) {
        Err(PlaceError::CannotBeMade { message, .. }) => assert!(message.contains("fence"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(house.barrier(&[&premises], house.warrant(9)), Err(PlaceError::InTheWay { .. })));
    house.nobody_is_inside();
    fs::remove_dir_all(house.fence().parent().unwrap()).unwrap();
    assert!(matches!(house.barrier(&[&premises], house.warrant(9)), Err(PlaceError::InTheWay { .. })));
    Ok(())
}

/// Raises a fence again and again, and says each time which one is stored.
pub fn raise_until_killed(path: &Path) {
    let mut said = std::io::stdout();
    for fence in fence_file::read(path).unwrap().fence + 1.. {
        assert_eq!(fence_file::raise(path, Warrant { fence, lease: None }).unwrap(), Raised::Stored);
        writeln!(said, "{fence}").unwrap();
    }
}

pub fn a_killed_writer(directory: &Path) -> Result<(), String> {
    let path = directory.join("fence");
    for round in 0..if std::env::var_os("STEAD_PROVE").is_some() { 500 } else { 20 } {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut writer = command.arg("raise").arg(&path).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        // Killed right after something was told, and at whatever step it is at by then.
        let mut told = lines.by_ref().nth(round % 5).unwrap().unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        told = lines.map_while(Result::ok).last().unwrap_or(told);
        let stored = fence_file::read(&path).unwrap().fence;
        let told: u64 = told.parse().unwrap();
        assert!(stored == told || stored == told + 1, "{stored} is stored, and {told} was told");
    }
    assert!(fs::read_dir(directory).unwrap().count() <= 2);
    Ok(())
}
