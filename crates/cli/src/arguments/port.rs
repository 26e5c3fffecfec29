//! `stead port …`.

use std::net::IpAddr;

use clap::{Args, Subcommand};
use stead_domain::duration::Duration;
use stead_domain::ports::parse_port;

use super::environment::Reference;
use super::words;

#[derive(Subcommand, Debug)]
pub enum PortCommand {
    /// List what listens in an environment, and what its definition declares
    #[command(visible_alias = "ls")]
    List(List),
    /// Reach a port from this machine, whatever protocol it speaks
    Forward(Forward),
    /// Make a URL of a port that whoever has it may use until it expires
    Url(Url),
}

#[derive(Args, Debug)]
#[command(after_help = "An environment that sleeps is not woken for it.")]
pub struct List {
    #[command(flatten)]
    pub reference: Reference,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead port forward web 3000                 localhost:3000 is port 3000 inside
  stead port forward web 8080:3000 5433:5432  localhost:8080 is port 3000 inside, and 5433 is 5432
  stead port forward web 0:3000               a free port here; it says which

It goes on until Ctrl-C, also when nothing listens inside yet and when the server is restarted. Each connection here is one inside.")]
pub struct Forward {
    #[command(flatten)]
    pub reference: Reference,
    /// The port here, and the one inside if that is another
    #[arg(value_name = "HERE[:INSIDE]", required = true, value_parser = mapping)]
    pub ports: Vec<Mapping>,
    /// The address here to listen on; anything but loopback lets others in
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: IpAddr,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead port url web 3000
  curl \"$(stead port url web 3000 --expires 10m --quiet)\"

The URL ends before its time with the environment, and with the key or the membership of whoever made it. A browser is sent on to the same \
address with a cookie in place of the token.")]
pub struct Url {
    #[command(flatten)]
    pub reference: Reference,
    #[arg(value_name = "PORT", help = "The port inside", value_parser = port)]
    pub port: u16,
    /// How long it is good, at most a day [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = words::duration)]
    pub expires: Option<Duration>,
}

/// A port here and one inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// 0 is any that is free.
    pub here: u16,
    pub inside: u16,
}

fn port(text: &str) -> Result<u16, String> {
    parse_port(text).map_err(|_| "it should be a port, 1 to 65535".to_owned())
}

fn mapping(text: &str) -> Result<Mapping, String> {
    let wrong = || "it should look like 3000 or 8080:3000".to_owned();
    match text.split_once(':') {
        None => port(text).map(|port| Mapping { here: port, inside: port }).map_err(|_| wrong()),
        Some((here, inside)) => {
            let here = if here == "0" { 0 } else { port(here).map_err(|_| wrong())? };
            Ok(Mapping { here, inside: port(inside).map_err(|_| wrong())? })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_one_port_or_two() {
        assert_eq!(mapping("80").unwrap(), Mapping { here: 80, inside: 80 });
        assert_eq!(mapping("8080:80").unwrap(), Mapping { here: 8080, inside: 80 });
        assert_eq!(mapping("0:80").unwrap(), Mapping { here: 0, inside: 80 });
        for wrong in ["", "0", ":", "80:", ":80", "80:0", "70000", "1:2:3", "a"] {
            assert!(mapping(wrong).is_err(), "{wrong}");
        }
    }
}
