//! A session at a terminal: keys go inside, what is drawn comes out, sizes follow, and the terminal is afterwards what it was before.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::desk::Desk;

pub struct Screen {
    master: File,
    slave: OwnedFd,
    pieces: Receiver<Vec<u8>>,
    pub seen: String,
    pub child: Child,
}

impl Screen {
    /// Runs a command that has this terminal for its own.
    pub fn open(command: &Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let slave = open();
        tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program()).args(command.get_args()).env("TERM", "xterm");
        session.current_dir(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs().filter(|(name, _)| *name != "TERM") {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        let child = session.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
        let master = File::from(master);
        let (sender, pieces) = channel();
        let mut reader = master.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = reader.read(&mut buffer) {
                if length == 0 || sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { master, slave: slave.into(), pieces, seen: String::new(), child }
    }

    pub fn type_keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until it shows something after what was waited for before.
    pub fn wait_for(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let left = Duration::from_secs(30).saturating_sub(begun.elapsed());
            match self.pieces.recv_timeout(left) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(_) => panic!("`{text}` never came; what came is {:?}", self.seen),
            }
        }
    }

    fn wait_until_raw(&self) {
        let begun = Instant::now();
        while !self.is_raw() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the terminal is never given to the program");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ICANON)
    }
}

#[test]
fn a_terminal_session_has_keys_sizes_and_interruptions() {
    let desk = Desk::new();
    let mut screen = Screen::open(&desk.command(&["run", "--", "sh"]));
    screen.wait_for("$ ");
    assert!(screen.is_raw());
    screen.type_keys("stty size; tty; echo $TERM\r");
    screen.wait_for("24 80");
    screen.wait_for("/dev/pts/");
    screen.wait_for("xterm");
    tcsetwinsize(&screen.slave, Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    screen.type_keys("stty size\r");
    screen.wait_for("40 120");
    // Ctrl-C is for the program inside, however often it comes.
    for _ in 0..4 {
        screen.type_keys("sleep 60; echo not reached\r");
        screen.wait_for("not reached");
        std::thread::sleep(Duration::from_millis(300));
        screen.type_keys("\x03");
        screen.wait_for("$ ");
    }
    screen.type_keys("echo last $?\r");
    screen.wait_for("last 130");
    screen.type_keys("exit 5\r");
    assert_eq!(screen.child.wait().unwrap().code(), Some(5));
    assert!(!screen.is_raw(), "the terminal is as it was");
}

#[test]
fn a_terminal_can_be_left_and_come_back_to() {
    let desk = Desk::new();
    let mut screen = Screen::open(&desk.command(&["shell", "local-default", "sh"]));
    screen.wait_for("$ ");
    // A program that such a key would end, as it ends most.
    screen.type_keys("sh -c 'echo ready; sleep 600; echo over'; echo again\r");
    screen.wait_for("\nready");
    screen.type_keys("\x1c\x1c\x1c");
    screen.wait_for("come back with: stead ");
    assert_eq!(screen.child.wait().unwrap().code(), Some(130));
    assert!(!screen.is_raw(), "the terminal is as it was");
    let id = desk.done(&["ps", "--quiet"]).trim().to_owned();
    let mut screen = Screen::open(&desk.command(&["attach", &id]));
    // Before that, the key would be for the command itself.
    screen.wait_until_raw();
    // One alone goes inside, and ends it there.
    screen.type_keys("\x1c");
    screen.wait_for("\nagain");
    screen.type_keys("exit 3\r");
    assert_eq!(screen.child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_terminal_shows_the_queue_and_then_the_command_under_its_lease() {
    let desk = Desk::new();
    desk.done(&["lease", "acquire", "local-default", "--ttl", "30m", "--note", "first", "-o", "first.lease"]);
    let mut screen = Screen::open(&desk.command(&["lease", "run", "local-default", "--wait", "10m", "--", "sh"]));
    screen.wait_for("waiting for local-default, next in line; held by");
    // The line is made anew in its place.
    screen.wait_for("\rwaiting for local-default, next in line; held by");
    assert!(!screen.is_raw(), "keys are still ours, Ctrl-C among them");
    let mut watching = Screen::open(&desk.command(&["lease", "watch"]));
    watching.wait_for("HELD BY");
    watching.wait_for("(\"first\")");
    desk.done(&["--lease-token-file", "first.lease", "lease", "release"]);
    screen.wait_for("$ ");
    assert!(screen.is_raw());
    screen.type_keys("stty size\r");
    screen.wait_for("24 80");
    screen.type_keys("exit 5\r");
    assert_eq!(screen.child.wait().unwrap().code(), Some(5));
    assert!(!screen.is_raw(), "the terminal is as it was");
    watching.wait_for("local-default  nobody");
    watching.type_keys("q");
    assert_eq!(watching.child.wait().unwrap().code(), Some(0));
    assert!(!watching.is_raw());
}

#[test]
fn output_of_others_cannot_move_the_cursor() {
    let desk = Desk::new();
    let id = desk.done(&["run", "--detach", "--", "printf", r"a\033[2Jb\r\nc\n"]).trim().to_owned();
    let mut screen = Screen::open(&desk.command(&["logs", "-f", &id]));
    screen.wait_for(r"a\u{1b}[2Jb");
    let mut screen = Screen::open(&desk.command(&["logs", "-f", "--raw", &id]));
    screen.wait_for("a\u{1b}[2Jb");
}
