//! Encoding and decoding of collections.

use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, deserialize_from_bson, doc, serialize_to_bson};

use super::{StoredNumber, binary, damaged, generation_of, seq_of, seq_value};
use doppel_core::collection::{CollectionName, Keep, Settings};
use doppel_store::content::HashKey;
use doppel_store::generations::{GenerationPhase, GenerationState, PairSource};
use doppel_store::{CollectionNumber, CollectionState, GenerationId, Result, Seq};

#[derive(Clone, Debug)]
pub(in super::super) struct CollectionDocument {
    pub(in super::super) number: StoredNumber,
    pub(in super::super) state: CollectionState,
    /// The highest number that a generation of the collection has had.
    pub(in super::super) last_generation: GenerationId,
    /// The number of the last commit (see `latch`).
    pub(in super::super) commits: Seq,
    /// The last commit that changed a decision; 0 if there is none.
    pub(in super::super) decided: Seq,
    /// The highest commit that was deleted from the log; 0 if there is none.
    pub(in super::super) forgotten: Seq,
}

impl CollectionDocument {
    /// Replaces the state if `state` is given. Returns true if it is given.
    pub(in super::super) fn show(&mut self, state: Option<CollectionState>) -> bool {
        let changed = state.is_some();
        self.state = state.unwrap_or_else(|| self.state.clone());
        changed
    }

    pub(in super::super) fn encode(&self) -> Result<Document> {
        let Self { number, state, last_generation, commits, decided, forgotten } = self;
        let CollectionState {
            // The number of the document replaces it.
            number: _,
            name,
            settings,
            generation,
            profile,
            created_at,
            live_since,
            scan_end,
            pair_sources,
            frequencies,
            hash_key,
            others,
        } = state;
        let others = others.iter().map(|other| encode_other(other).map(Bson::from)).collect::<Result<Vec<_>>>()?;
        let mut document = doc! {
            "_id": name.as_str(), "number": number, "generation": generation.0 as i32,
            "last_generation": last_generation.0 as i32, "profile": profile, "settings": settings_value(settings)?,
            "created_at": created_at, "scan_end": seq_value(*scan_end), "commits": seq_value(*commits), "others": others,
        };
        if let Some(live_since) = live_since {
            document.insert("live_since", live_since);
        }
        if !pair_sources.is_empty() {
            document.insert("pair_sources", pair_sources.iter().map(encode_source).collect::<Vec<_>>());
        }
        if *decided > Seq(0) {
            document.insert("decided", seq_value(*decided));
        }
        if *forgotten > Seq(0) {
            document.insert("forgotten", seq_value(*forgotten));
        }
        if let Some(key) = hash_key {
            document.insert("hash_key", binary(key.bytes()));
        }
        if *frequencies > 0 {
            document.insert("frequencies", *frequencies as i32);
        }
        Ok(document)
    }

    pub(in super::super) fn decode(document: &Document) -> Result<Self> {
        let others = document.get_array("others").map(Vec::as_slice).unwrap_or_default();
        let sources = document.get_array("pair_sources").map(Vec::as_slice).unwrap_or_default();
        let number = document.get_i32("number").map_err(damaged)?;
        let state = CollectionState {
            number: CollectionNumber(number as u32),
            name: CollectionName::new(text_of(document, "_id")?).map_err(damaged)?,
            settings: settings_of(document)?,
            generation: generation_of(document.get_i32("generation").map_err(damaged)?),
            profile: text_of(document, "profile")?.to_owned(),
            created_at: text_of(document, "created_at")?.to_owned(),
            live_since: document.get_str("live_since").ok().map(str::to_owned),
            scan_end: seq_of(document.get_i64("scan_end").unwrap_or(0)),
            pair_sources: sources.iter().map(decode_source).collect::<Result<_>>()?,
            frequencies: document.get_i32("frequencies").unwrap_or(0) as u32,
            hash_key: hash_key_of(document)?,
            others: others.iter().map(decode_other).collect::<Result<_>>()?,
        };
        let highest = state.others.iter().map(|other| other.id).max().unwrap_or(GenerationId(0)).max(state.generation);
        let last_generation =
            document.get_i32("last_generation").map_or(GenerationId::default(), generation_of).max(highest);
        let commits = seq_of(document.get_i64("commits").map_err(damaged)?);
        let decided = seq_of(document.get_i64("decided").unwrap_or(0));
        let forgotten = seq_of(document.get_i64("forgotten").unwrap_or(0));
        Ok(Self { number, state, last_generation, commits, decided, forgotten })
    }
}

fn text_of<'d>(document: &'d Document, key: &str) -> Result<&'d str> {
    document.get_str(key).map_err(damaged)
}

fn hash_key_of(document: &Document) -> Result<Option<HashKey>> {
    let Some(key) = document.get("hash_key") else { return Ok(None) };
    let bytes = match key {
        Bson::Binary(key) => <[u8; 32]>::try_from(key.bytes.as_slice()).ok(),
        _ => None,
    };
    bytes
        .map(|bytes| Some(HashKey::new(bytes)))
        .ok_or_else(|| damaged("the key of a collection's hashes cannot be read"))
}

/// Returns the contents that a collection keeps. The document may be reduced to `settings.keep`. A collection without this setting
/// keeps everything.
pub(in super::super) fn keep_of(document: &RawDocument) -> Result<Keep> {
    let Some(RawBsonRef::Document(settings)) = document.get("settings").map_err(damaged)? else { return Ok(Keep::All) };
    match settings.get("keep").map_err(damaged)? {
        None => Ok(Keep::All),
        Some(keep) => deserialize_from_bson(keep.try_into().map_err(damaged)?).map_err(damaged),
    }
}

fn settings_value(settings: &Settings) -> Result<Bson> {
    serialize_to_bson(settings).map_err(damaged)
}

fn settings_of(document: &Document) -> Result<Settings> {
    let settings = document.get("settings").cloned().unwrap_or(Bson::Null);
    deserialize_from_bson(settings).map_err(damaged)
}

fn encode_source(source: &PairSource) -> Bson {
    Bson::from(doc! { "generation": source.generation.0 as i32, "from": seq_value(source.from) })
}

fn decode_source(source: &Bson) -> Result<PairSource> {
    let source = source.as_document().ok_or_else(|| damaged("a source of pairs is not a document"))?;
    let generation = generation_of(source.get_i32("generation").map_err(damaged)?);
    Ok(PairSource { generation, from: seq_of(source.get_i64("from").map_err(damaged)?) })
}

fn encode_other(other: &GenerationState) -> Result<Document> {
    let GenerationState { id, settings, profile, phase, created_at, scan_end } = other;
    let phase = match phase {
        GenerationPhase::Building => "building",
        GenerationPhase::Ready => "ready",
    };
    Ok(doc! {
        "id": id.0 as i32, "settings": settings_value(settings)?, "profile": profile, "phase": phase,
        "created_at": created_at, "scan_end": seq_value(*scan_end),
    })
}

fn decode_other(other: &Bson) -> Result<GenerationState> {
    let other = other.as_document().ok_or_else(|| damaged("a generation is not a document"))?;

    Ok(GenerationState {
        id: generation_of(other.get_i32("id").map_err(damaged)?),
        settings: settings_of(other)?,
        profile: text_of(other, "profile")?.to_owned(),
        phase: match text_of(other, "phase")? {
            "building" => GenerationPhase::Building,
            "ready" => GenerationPhase::Ready,
            _ => return Err(damaged("a generation is in an unknown phase")),
        },
        created_at: text_of(other, "created_at")?.to_owned(),
        scan_end: seq_of(other.get_i64("scan_end").map_err(damaged)?),
    })
}
