//! `lookaside watch`: counts what the kernel does with TLBs, and shows the counts to Prometheus.

mod counts;

use core::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream, ToSocketAddrs as _},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use lookaside_terminal::{Refused, tell};
use lookaside_traces::record::{self, End, NoRecording, Plan, What};

use self::counts::Counts;

/// Exit status by a signal is this plus its number, as in shells.
const SIGNALS: i32 = 128;
/// A client that sends nothing for so long is left alone.
const PATIENCE: Duration = Duration::from_secs(5);
/// No request has a longer head.
const HEAD: u64 = 16 * 1024;

/// Arguments of `lookaside watch`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lookaside watch                              then: curl http://127.0.0.1:9464/metrics
  lookaside watch --prometheus 9100
  lookaside watch --prometheus 10.0.0.7:9464   open to others: they see names of processes")]
pub(crate) struct Arguments {
    /// Where to answer: an address or a name and a port, or a port of this machine alone.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9464", value_parser = address)]
    prometheus: SocketAddr,
    /// Watch for this many seconds. Without it until Ctrl-C.
    #[arg(long, value_name = "SECONDS", value_parser = lookaside_terminal::seconds)]
    duration: Option<Duration>,
    /// The buffer of each CPU in KiB. Default: as for `record`.
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(64..))]
    buffer: Option<u64>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    // A name may stand for several addresses: the first is the system's choice.
    text.to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(|| {
        format!("`{text}` is neither a port nor an address or a known name and a port, as 127.0.0.1:9464")
    })
}

/// Runs `lookaside watch`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { prometheus, duration, buffer: buffer_kib, .. } = *arguments;
    let refuse = |error: io::Error| {
        let other = match error.kind() {
            io::ErrorKind::AddrInUse => ": `--prometheus` takes another port",
            _ => "",
        };
        Refused(format!("{prometheus}: {error}{other}"))
    };
    let listener = TcpListener::bind(prometheus).map_err(refuse)?;
    let place = listener.local_addr().map_err(refuse)?;
    let counts = Arc::new(Mutex::new(Counts::default()));
    let shown = Arc::clone(&counts);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counts = Arc::clone(&shown);
            // A client that goes away is its own affair.
            thread::spawn(move || drop(answer(stream, &counts)));
        }
    });
    let mut begun = false;
    let plan = Plan {
        what: What::System,
        duration,
        all: true,
        lean: false,
        user_stacks: false,
        buffer_kib,
        folder: PathBuf::new(),
    };
    let end = record::watch(&plan, |seen, names| {
        // What cannot be watched has failed before.
        if !core::mem::replace(&mut begun, true) {
            tell!("counts are at http://{place}/metrics");
        }
        counts.lock().unwrap_or_else(PoisonError::into_inner).note(&seen, names);
    });
    match end {
        Ok(End::Signal(signal)) if duration.is_some() => {
            Ok(ExitCode::from(u8::try_from(SIGNALS + signal).unwrap_or(u8::MAX)))
        }
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(NoRecording::Refused(refused)) => Err(refused.into()),
        Err(NoRecording::NotExecuted { why, .. }) => Err(Refused(why).into()),
    }
}

/// Answers one request.
fn answer(stream: TcpStream, counts: &Mutex<Counts>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new((&stream).take(HEAD)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // The rest of the head, so that the client is not cut off while it sends.
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = request.split(' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => {
            let text = counts.lock().unwrap_or_else(PoisonError::into_inner).text();
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text)
        }
        (Some("GET"), _) => ("404 Not Found", "text/plain", "counts are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET is answered\n".to_owned()),
    };
    let length = body.len();
    write!(
        &stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_this_machine_unless_another_is_named() {
        let shown = |text: &str| address(text).map(|address| address.to_string());
        assert_eq!(shown("9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(shown(":9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(shown("0.0.0.0:1").as_deref(), Ok("0.0.0.0:1"));
        assert_eq!(shown("[::1]:1").as_deref(), Ok("[::1]:1"));
        let local = address("localhost:1").unwrap();
        assert!(local.ip().is_loopback() && local.port() == 1);
        for wrong in ["70000", "localhost", "no.such.name.invalid:1", ""] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_are_got_by_http() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let place = listener.local_addr().unwrap();
        let counts = Mutex::new(Counts::default());
        let get = |request: &str| {
            thread::scope(|scope| {
                let client = scope.spawn(|| {
                    let mut stream = TcpStream::connect(place).unwrap();
                    stream.write_all(request.as_bytes()).unwrap();
                    let mut text = String::new();
                    stream.read_to_string(&mut text).unwrap();
                    text
                });
                answer(listener.accept().unwrap().0, &counts).unwrap();
                client.join().unwrap()
            })
        };
        let answer = get("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(body.contains("# TYPE lookaside_flushes_total counter"));
        assert!(get("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(get("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }
}
