//! What git inside an environment asks for a credential: it asks the server, by a socket that the place has. Nothing is kept.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use stead_api::{InsideAnswer, InsideQuestion};
use stead_app::repositories::pass;

const LONGEST: u64 = 16 << 10;
const PATIENCE: Duration = Duration::from_secs(90);

/// Whether this program was called as that one.
pub fn is_meant(called: &Path) -> bool {
    called.file_name().is_some_and(|name| name == pass::PROGRAM)
}

/// `get` answers; what git would have kept or forgotten is nobody's to keep here.
pub fn run(operation: Option<&str>) -> ExitCode {
    if operation != Some("get") {
        return ExitCode::SUCCESS;
    }
    let said = match get() {
        Ok(lines) => lines,
        Err(why) => {
            let _ = writeln!(io::stderr(), "stead: no credential: {why}");
            // Nobody else is to be asked, and nobody is there to type one.
            "quit=1\n".to_owned()
        }
    };
    let _ = io::stdout().write_all(said.as_bytes());
    ExitCode::SUCCESS
}

fn get() -> Result<String, String> {
    let mut text = String::new();
    io::stdin().take(LONGEST).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let field = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).next_back().unwrap_or_default()
    };
    let shown = std::env::var("STEAD_GIT_PASS").map_err(|_| "STEAD_GIT_PASS is not set; it is where Stead starts a process".to_owned())?;
    let question = InsideQuestion { pass: shown, protocol: field("protocol"), host: field("host"), path: field("path") };
    match ask(&question).map_err(|error| format!("the server does not answer ({error}); it may be starting again"))? {
        InsideAnswer::Credential { username, password, expires_at } => {
            Ok(format!("username={username}\npassword={password}\npassword_expiry_utc={expires_at}\n"))
        }
        InsideAnswer::Refused { error, hint } => Err(hint.map_or_else(|| error.clone(), |hint| format!("{error}\nhint: {hint}"))),
    }
}

fn ask(question: &InsideQuestion) -> io::Result<InsideAnswer> {
    let mut stream = UnixStream::connect(Path::new(pass::DIRECTORY).join(pass::SOCKET))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_string(question)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
