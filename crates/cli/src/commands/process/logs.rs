use stead_client::Heard;

use super::find;
use crate::arguments::process::Logs;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::Sheet;

pub async fn run(invocation: &Invocation<'_>, arguments: &Logs) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let process = find::process(&client, &arguments.reference.process).await?;
    let mut sheet = Sheet::new(arguments.raw);
    if arguments.follow {
        let mut follow = client.follow_logs(process.environment_id, process.id, arguments.since, arguments.stream);
        while let Some(heard) = follow.next().await? {
            match heard {
                Heard::Output { bytes, .. } => sheet.write(&bytes)?,
                Heard::Gap { from, to } => missing(invocation, &format!("{from}-{to}")),
                Heard::Exit(_) | Heard::Failed { .. } => break,
            }
        }
        return sheet.end();
    }
    let mut offset = arguments.since;
    loop {
        let logs = client.read_logs(process.environment_id, process.id, offset, arguments.stream).await?;
        if let Some(gap) = &logs.gap {
            missing(invocation, gap);
        }
        sheet.write(&logs.bytes)?;
        // Bytes of the other stream are passed over without an answer that holds any.
        if logs.next <= offset {
            return sheet.end();
        }
        offset = logs.next;
    }
}

fn missing(invocation: &Invocation<'_>, gap: &str) {
    invocation.printer.warn(&format!("bytes {gap} are no longer kept"));
}
