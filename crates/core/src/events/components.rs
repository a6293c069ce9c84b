//! The events of records that come and go.
//!
//! Two parts of an event join only if the mean of their log-odds reaches the bound, so that at least one pair reaches it. Therefore an event
//! never reaches beyond its *component*: the records that are connected by known links and by pairs that reach the bound. When lists or
//! links change, only the components of the changed records are clustered again, with the result of clustering all records.

use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;

/// The place of a record without a component.
const NONE: u32 = u32::MAX;

/// The components with at least two records, and their events. A component is identified by one of its records.
#[derive(Debug, Default)]
pub(super) struct EventComponents {
    component_of: Vec<u32>,
    components: HashMap<u32, EventComponent>,
}

#[derive(Debug)]
struct EventComponent {
    records: Vec<u32>,
    /// The members of each event.
    events: Vec<Vec<u32>>,
}

impl EventComponents {
    /// Finds the components of `changed` records again, and of all records that were or are connected with them. `connected` returns the
    /// records with which a record is connected, none for a record that is gone; `cluster` returns the events of a component.
    pub(super) fn refresh(
        &mut self,
        changed: impl IntoIterator<Item = u32>,
        count: usize,
        connected: impl Fn(u32) -> Option<Vec<u32>>,
        cluster: impl Fn(&mut [u32]) -> Vec<Vec<u32>> + Sync,
    ) {
        self.component_of.resize(count, NONE);
        let mut seeds: Vec<u32> = changed.into_iter().collect();
        for at in 0..seeds.len() {
            seeds.extend(self.dissolve(seeds[at]));
        }
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for seed in seeds {
            let mut records = Vec::new();
            let mut waiting = vec![seed];
            while let Some(record) = waiting.pop() {
                if !seen.insert(record) {
                    continue;
                }
                // The members of another component are connected with this record, so that the search reaches them, too.
                self.dissolve(record);
                let Some(others) = connected(record) else { continue };
                records.push(record);
                waiting.extend(others);
            }
            if records.len() > 1 {
                found.push(records);
            }
        }
        let clustered = found.into_par_iter().map(|mut records| {
            let events = cluster(&mut records);
            EventComponent { records, events }
        });
        for component in clustered.collect::<Vec<_>>() {
            let name = component.records[0];
            component.records.iter().for_each(|record| self.component_of[*record as usize] = name);
            self.components.insert(name, component);
        }
    }

    /// Removes the component of a record. Returns its records.
    fn dissolve(&mut self, record: u32) -> Vec<u32> {
        let component = self.component_of.get(record as usize).and_then(|name| self.components.remove(name));
        let records = component.map(|component| component.records).unwrap_or_default();
        records.iter().for_each(|record| self.component_of[*record as usize] = NONE);
        records
    }

    /// Returns the members of each event.
    pub(super) fn events(&self) -> impl Iterator<Item = &[u32]> {
        self.components.values().flat_map(|component| &component.events).map(Vec::as_slice)
    }

    /// Returns the members of the event of a record.
    pub(super) fn event_of(&self, record: u32) -> Option<&[u32]> {
        let component = self.components.get(self.component_of.get(record as usize)?)?;
        component.events.iter().find(|members| members.contains(&record)).map(Vec::as_slice)
    }
}
