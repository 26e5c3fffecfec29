//! Everything that tries to go on.

use std::path::Path;
use std::time::Duration;

use stead_app::{Errand, PlaceError, Premises, StartProcess, Warrant};
use stead_domain::files::{FileOrder, FilePath};
use stead_domain::process::TerminalSize;

use crate::house::House;

const SIZE: TerminalSize = TerminalSize { rows: 24, cols: 80 };
const LONG: Duration = Duration::from_secs(60);
/// Left behind by a command that is over.
const DAEMON: &str = "(setsid sh -c 'while :; do echo x >> daemon; sleep 0.01; done' &) & wait; exit 0";
const STOPPED: &str = "echo x >> stopped; kill -STOP $$; while :; do echo x >> stopped; done";
const TRACED: &str = "exec strace -f -o /dev/null sh -c 'while :; do echo x >> traced; sleep 0.01; done'";
const DEAF: &str = "trap '' TERM HUP INT QUIT; while :; do echo x >> deaf; sleep 0.01; done";
const AT_A_TERMINAL: &str = "while :; do echo x >> terminal; sleep 0.01; done";

struct Zoo {
    house: House,
    premises: Premises,
    old: Warrant,
    /// Those that run, with what each is called.
    animals: Vec<StartProcess>,
    errand: Box<dyn Errand>,
}

fn path(name: &str) -> FilePath {
    FilePath::parse("path", name.as_bytes()).unwrap()
}

impl Zoo {
    fn new(directory: &Path) -> Self {
        let house = House::new(directory);
        let (premises, old) = (house.environment(), house.warrant(3));
        let traced = Path::new("/usr/bin/strace").exists();
        let mut files = vec!["daemon", "stopped", "deaf", "terminal", "errand"];
        let daemon = house.start(old, DAEMON);
        house.begin(&premises, &daemon);
        assert_eq!(house.end_of(&premises, daemon.id).exit.unwrap().code, Some(0));
        let mut animals = vec![house.start(old, STOPPED), house.start(old, DEAF)];
        animals.push(StartProcess { terminal: Some(SIZE), ..house.start(old, AT_A_TERMINAL) });
        if traced {
            animals.push(house.start(old, TRACED));
            files.push("traced");
        } else {
            println!("not run: there is no strace to trace somebody with");
        }
        animals.iter().for_each(|animal| house.begin(&premises, animal));
        let order = FileOrder::Append { path: path("errand"), offset: None, mode: None };
        let mut errand = house.run(house.place().errand(&premises, Some(old), &order)).unwrap();
        house.run(errand.send(&[7; 300_000])).unwrap();
        house.until_written(&files);
        Self { house, premises, old, animals, errand }
    }

    /// Everything is gone, the old warrant is good for nothing, and the new one for everything.
    #[track_caller]
    fn ends_with(mut self, new: Warrant) {
        let (house, premises) = (&self.house, &self.premises);
        house.nobody_is_inside();
        let before = house.sizes();
        for animal in &self.animals {
            house.was_fenced(premises, animal.id);
        }
        while let Ok((word, _)) = house.run(self.errand.next()) {
            assert!(!matches!(word, stead_domain::files::FileWord::Done { .. }), "it was not cut off");
        }
        let again = house.start(self.old, "echo x >> again");
        assert!(matches!(house.run(house.place().start(premises, &again)), Err(PlaceError::Fenced)));
        // A repetition finds what ran, and does not run it again.
        house.begin(premises, &self.animals[0]);
        let kept = StartProcess { terminal: Some(SIZE), ..house.start(new, "read line; echo $line; sleep 1000") };
        house.begin(premises, &kept);
        house.begin(premises, &StartProcess { warrant: new, ..self.animals[0].clone() });
        house.was_fenced(premises, self.animals[0].id);
        let somebody_else = Warrant { fence: new.fence, ..house.warrant(0) };
        for refused in [self.old, somebody_else] {
            let (at, id) = (premises.environment, kept.id);
            let write = FileOrder::Write { path: path("again"), mode: None, parents: false };
            assert!(matches!(house.run(house.place().write_stdin(at, id, refused, 0, b"x\n", false)), Err(PlaceError::Fenced)));
            assert!(matches!(house.run(house.place().signal(at, id, Some(refused), 9)), Err(PlaceError::Fenced)));
            assert!(matches!(house.run(house.place().resize(at, id, refused, SIZE)), Err(PlaceError::Fenced)));
            assert!(matches!(house.run(house.place().errand(premises, Some(refused), &write)), Err(PlaceError::Fenced)));
            let remove = FileOrder::Remove { path: path("daemon"), recursive: false };
            assert!(matches!(house.run(house.place().errand(premises, Some(refused), &remove)), Err(PlaceError::Fenced)));
        }
        let (at, id) = (premises.environment, kept.id);
        house.run(house.place().errand(premises, None, &FileOrder::Stat { path: path("daemon") })).unwrap();
        house.run(house.place().resize(at, id, new, SIZE)).unwrap();
        house.run(house.place().write_stdin(at, id, new, 0, b"x\n", false)).unwrap();
        house.run(house.place().signal(at, id, None, 9)).unwrap();
        assert_eq!(house.end_of(premises, id).exit.unwrap().signal, Some(9));
        house.works(premises, new);
        assert_eq!(house.sizes(), before, "somebody went on");
        house.run(house.place().sleep(at, true)).unwrap();
        house.nobody_is_inside();
    }
}

pub fn everything_ends(directory: &Path) -> Result<(), String> {
    let zoo = Zoo::new(directory);
    let activity = zoo.house.run(zoo.house.place().activity(zoo.premises.environment)).unwrap().unwrap();
    assert_eq!((activity.processes, activity.background), (zoo.animals.len() as u64, 2), "the daemon and the errand");
    let new = zoo.house.warrant(4);
    zoo.house.barrier(&[&zoo.premises], new).unwrap();
    zoo.ends_with(new);
    Ok(())
}

pub fn what_stands_still_ends(directory: &Path) -> Result<(), String> {
    let zoo = Zoo::new(directory);
    let still = match zoo.house.run(zoo.house.place().freeze(zoo.premises.environment, LONG)) {
        Ok(still) => still.unwrap(),
        Err(error) => {
            zoo.house.run(zoo.house.place().sleep(zoo.premises.environment, true)).unwrap();
            return Err(error.to_string());
        }
    };
    let before = zoo.house.sizes();
    // What is asked meanwhile waits, and is refused.
    let (place, late) = (zoo.house.place(), zoo.house.start(zoo.old, "echo x >> late"));
    let new = zoo.house.warrant(4);
    let barrier = stead_app::Barrier { sandbox: zoo.house.sandbox, environments: vec![zoo.premises.environment], warrant: new, stop: true };
    let (started, answered) = zoo.house.run(async { tokio::join!(place.start(&zoo.premises, &late), place.barrier(&barrier)) });
    answered.unwrap();
    assert!(matches!(started, Err(PlaceError::Fenced)), "{started:?}");
    assert_eq!(zoo.house.sizes(), before, "nobody went on before it ended");
    assert!(zoo.house.run(still.thaw()).is_err());
    // Whoever asked late may have woken it in vain.
    zoo.house.run(zoo.house.place().sleep(zoo.premises.environment, true)).unwrap();
    zoo.ends_with(new);
    Ok(())
}

pub fn both_environments_end(directory: &Path) -> Result<(), String> {
    let house = House::new(directory);
    let [one, other, asleep] = [house.environment(), house.environment(), house.environment()];
    let old = house.warrant(1);
    let [first, second] = ["one", "other"].map(|name| house.start(old, &format!("while :; do echo x >> {name}; sleep 0.01; done")));
    house.begin(&one, &first);
    house.begin(&other, &second);
    house.until_written(&["one", "other"]);
    let new = house.warrant(2);
    house.barrier(&[&one, &other, &asleep], new).unwrap();
    house.nobody_is_inside();
    let before = house.sizes();
    house.was_fenced(&one, first.id);
    house.was_fenced(&other, second.id);
    for premises in [&one, &other, &asleep] {
        assert!(matches!(house.run(house.place().start(premises, &house.start(old, "true"))), Err(PlaceError::Fenced)));
        house.works(premises, new);
        house.run(house.place().sleep(premises.environment, true)).unwrap();
    }
    assert_eq!(house.sizes(), before);
    Ok(())
}

pub fn an_idle_place_stays(directory: &Path) -> Result<(), String> {
    let house = House::new(directory);
    let (premises, first) = (house.environment(), house.warrant(1));
    house.works(&premises, first);
    let before = house.inside();
    assert_eq!(before.len(), 1, "only its init: {before:?}");
    let second = house.warrant(2);
    house.barrier(&[&premises], second).unwrap();
    assert_eq!(house.inside(), before);
    assert!(matches!(house.run(house.place().start(&premises, &house.start(first, "true"))), Err(PlaceError::Fenced)));
    // What runs under the very warrant is left alone, however often it is said.
    let start = house.start(second, "(setsid sh -c 'sleep 1000' &); echo x >> begun; read line; exit 7");
    house.begin(&premises, &start);
    house.until_written(&["begun"]);
    let watch = FileOrder::Watch { path: path("."), recursive: false };
    let mut watching = house.run(house.place().errand(&premises, None, &watch)).unwrap();
    house.run(watching.next()).unwrap();
    for _ in 0..3 {
        house.barrier(&[&premises], second).unwrap();
    }
    let activity = house.run(house.place().activity(premises.environment)).unwrap().unwrap();
    assert_eq!((activity.processes, activity.background), (1, 1), "who only watches changes nothing");
    house.run(house.place().write_stdin(premises.environment, start.id, second, 0, b"\n", false)).unwrap();
    assert_eq!(house.end_of(&premises, start.id).exit.unwrap().code, Some(7));
    // What it left behind is enough to end everything.
    let third = house.warrant(3);
    house.barrier(&[&premises], third).unwrap();
    house.nobody_is_inside();
    house.works(&premises, third);
    house.run(house.place().sleep(premises.environment, true)).unwrap();
    Ok(())
}

pub fn older_ones_are_stale(directory: &Path) -> Result<(), String> {
    let house = House::new(directory);
    let (premises, heard) = (house.environment(), house.warrant(5));
    let start = house.start(heard, "read line; exit 3");
    house.begin(&premises, &start);
    let somebody_else = house.warrant(5);
    // Only the keeper has heard of it, by the start.
    for (stale, warrant) in [(5, house.warrant(4)), (5, somebody_else)] {
        assert!(matches!(house.barrier(&[&premises], warrant), Err(PlaceError::Stale(highest)) if highest == stale));
    }
    // What was written down for somebody else keeps out who wakes it, until a later one is.
    let new = house.warrant(6);
    house.barrier(&[&premises], new).unwrap();
    house.was_fenced(&premises, start.id);
    for warrant in [heard, somebody_else, house.warrant(6)] {
        assert!(matches!(house.barrier(&[&premises], warrant), Err(PlaceError::Stale(6))));
    }
    house.barrier(&[&premises], new).unwrap();
    house.works(&premises, new);
    house.run(house.place().sleep(premises.environment, true)).unwrap();
    Ok(())
}
