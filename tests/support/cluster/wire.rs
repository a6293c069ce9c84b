//! The wire protocol of MongoDB.

use std::io;

use mongodb::bson::{Bson, Document};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) const OP_REPLY: i32 = 1;
pub(super) const OP_QUERY: i32 = 2004;
pub(super) const OP_MSG: i32 = 2013;

pub(super) async fn receive(stream: &mut TcpStream) -> io::Result<(i32, i32, i32, Vec<u8>)> {
    let length = stream.read_i32_le().await?;
    let id = stream.read_i32_le().await?;
    let to = stream.read_i32_le().await?;
    let kind = stream.read_i32_le().await?;
    let mut body = vec![0; usize::try_from(length - 16).map_err(io::Error::other)?];
    stream.read_exact(&mut body).await?;
    Ok((id, to, kind, body))
}

pub(super) async fn send(stream: &mut TcpStream, to: i32, kind: i32, body: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(body.len() + 16);
    for field in [body.len() as i32 + 16, 1, to, kind] {
        message.extend(field.to_le_bytes());
    }
    message.extend(body);
    stream.write_all(&message).await
}

fn unreadable_message() -> io::Error {
    io::Error::other("a message cannot be read")
}

/// Returns the length that a section of a message states at `at`.
fn length_at(body: &[u8], at: usize) -> io::Result<usize> {
    let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(|bytes| i32::from_le_bytes(bytes) as usize).ok_or_else(unreadable_message)
}

/// Returns the command of an OP_MSG with its sections joined, its name, and true if no answer is wanted.
pub(super) fn parse(body: &[u8]) -> io::Result<(String, Document, bool)> {
    let flags =
        u32::from_le_bytes(body.get(..4).and_then(|flags| flags.try_into().ok()).ok_or_else(unreadable_message)?);
    let end = body.len() - if flags & 1 == 1 { 4 } else { 0 };
    let mut command = Document::new();
    let mut sequences = Vec::new();
    let mut at = 4;
    while at < end {
        let kind = body[at];
        at += 1;
        let size = length_at(body, at)?;
        let section = body.get(at..at + size).ok_or_else(unreadable_message)?;
        if kind == 0 {
            command = Document::from_reader(section).map_err(io::Error::other)?;
        } else {
            let name_end = section[4..].iter().position(|byte| *byte == 0).ok_or_else(unreadable_message)? + 4;
            let name = String::from_utf8_lossy(&section[4..name_end]).into_owned();
            let mut documents = Vec::new();
            let mut rest = &section[name_end + 1..];
            while !rest.is_empty() {
                documents.push(Bson::from(Document::from_reader(&mut rest).map_err(io::Error::other)?));
            }
            sequences.push((name, documents));
        }
        at += size;
    }
    let name = command.keys().next().cloned().ok_or_else(unreadable_message)?;
    sequences.into_iter().for_each(|(name, documents)| _ = command.insert(name, documents));
    Ok((name, command, flags & 2 == 2))
}
