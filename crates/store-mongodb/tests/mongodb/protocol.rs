//! A model of the protocol of commits without a database. It searches all orders of the steps of two instances with a few
//! registrations that all match one another, including crashes of instances and elections that roll back commits.
//!
//! Assumptions about the database: a transaction reads the state at its beginning. It conflicts if it writes a document that another
//! transaction has written since, or is writing. Other transactions see a commit at once. An election can undo a commit until a majority
//! has confirmed it. The modules `latch` and `commit` of `doppel-store-mongodb` describe the assumptions about the store. Each rule can be
//! switched off in the model, and the search then finds a fault.

use std::collections::HashSet;

/// Number of registrations. They all match each other.
const MEMBERS: usize = 4;
const INSTANCES: usize = 2;

/// The rules of the store. The default is to follow all.
#[derive(Clone, Copy)]
struct StoreRules {
    /// Every transaction writes the document of the collection.
    latch: bool,
    /// An answer waits until a majority has the commit on which the answer depends, even if nothing was stored.
    confirmed: bool,
    /// A member is judged against the earlier members of its batch.
    in_order: bool,
}

impl Default for StoreRules {
    fn default() -> Self {
        Self { latch: true, confirmed: true, in_order: true }
    }
}

/// The registrations of each instance, and the number of faults.
#[derive(Clone)]
struct ModelScene {
    rules: StoreRules,
    /// Batches of members, by instance. A member may be sent twice.
    batches: [Vec<Vec<u8>>; INSTANCES],
    /// True for a member that is skipped if it is a duplicate.
    skips: [bool; MEMBERS],
    crashes: u8,
    elections: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ModelRecord {
    member: u8,
    seq: u8,
    original: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModelCommit {
    /// Identifies the transaction.
    transaction: u8,
    /// The counter after the transaction.
    last: u8,
    records: Vec<ModelRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ModelAnswer {
    Stored(ModelRecord),
    /// The record is a duplicate of the record with this seq.
    Skipped(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum InstancePhase {
    Idle,
    /// The transaction has begun and reads this number of commits.
    Begun(u8),
    /// The transaction has written the document of the collection.
    Latched(u8),
    /// The number of the transaction, and the answers that it gives when the commit is confirmed.
    Committing(u8, Vec<(u8, ModelAnswer)>),
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModelState {
    log: Vec<ModelCommit>,
    /// The number of commits that a majority has.
    majority: u8,
    phases: [InstancePhase; INSTANCES],
    waiting: [Vec<Vec<u8>>; INSTANCES],
    answers: [Option<ModelAnswer>; MEMBERS],
    transactions: u8,
    crashes: u8,
    elections: u8,
}

impl ModelState {
    fn holder(&self) -> Option<usize> {
        self.phases.iter().position(|phase| matches!(phase, InstancePhase::Latched(_)))
    }

    fn stored(log: &[ModelCommit]) -> impl Iterator<Item = ModelRecord> {
        log.iter().flat_map(|commit| commit.records.iter().copied())
    }

    /// Commits the current batch of `instance`. Members are judged against the state at the beginning of the transaction, which the
    /// latch keeps valid.
    fn commit(&mut self, scene: &ModelScene, instance: usize, read: u8) {
        let batch = self.waiting[instance][0].clone();
        let seen = &self.log[..usize::from(read)];
        let counter = seen.last().map_or(0, |commit| commit.last);
        let mut seq = counter;
        let mut records = Vec::new();
        let mut answers = Vec::new();
        for member in batch {
            seq += 1;
            let mut known = Self::stored(seen).chain(records.iter().copied());
            if let Some(record) = known.find(|record: &ModelRecord| record.member == member) {
                answers.push((member, ModelAnswer::Stored(record)));
                continue;
            }
            let batch_mates = records.iter().copied().filter(|_| scene.rules.in_order);
            let original = Self::stored(seen).chain(batch_mates).map(|record: ModelRecord| record.seq).min();
            match original {
                Some(original) if scene.skips[usize::from(member)] => {
                    answers.push((member, ModelAnswer::Skipped(original)));
                }
                _ => {
                    let record = ModelRecord { member, seq, original };
                    records.push(record);
                    answers.push((member, ModelAnswer::Stored(record)));
                }
            }
        }
        self.transactions += 1;
        let transaction = self.transactions;
        self.log.push(ModelCommit { transaction, last: seq, records });
        self.phases[instance] = InstancePhase::Committing(transaction, answers);
    }

    /// Returns all states that follow after one step.
    fn next(&self, scene: &ModelScene) -> Vec<Self> {
        let mut all = Vec::new();
        for instance in 0..INSTANCES {
            all.extend(self.step(scene, instance));
            all.extend(self.crash(instance));
        }
        if usize::from(self.majority) < self.log.len() {
            all.push(Self { majority: self.majority + 1, ..self.clone() });
        }
        if self.elections > 0 {
            let mut after = Self { elections: self.elections - 1, ..self.clone() };
            after.log.truncate(self.majority.into());
            for phase in &mut after.phases {
                if matches!(phase, InstancePhase::Begun(_) | InstancePhase::Latched(_)) {
                    *phase = InstancePhase::Idle;
                }
            }
            all.push(after);
        }
        all
    }

    fn step(&self, scene: &ModelScene, instance: usize) -> Option<Self> {
        let mut after = self.clone();
        match &self.phases[instance] {
            InstancePhase::Idle => {
                self.waiting[instance].first()?;
                after.phases[instance] = InstancePhase::Begun(self.log.len() as u8);
            }
            InstancePhase::Begun(read) if scene.rules.latch => {
                let conflicts = self.holder().is_some() || self.log.len() > usize::from(*read);
                after.phases[instance] = if conflicts { InstancePhase::Idle } else { InstancePhase::Latched(*read) };
            }
            InstancePhase::Begun(read) | InstancePhase::Latched(read) => after.commit(scene, instance, *read),
            InstancePhase::Committing(transaction, answers) => {
                match self.log.iter().position(|commit| commit.transaction == *transaction) {
                    // An election has undone the commit. The instance begins again.
                    None => after.phases[instance] = InstancePhase::Idle,
                    Some(at) if scene.rules.confirmed && at >= usize::from(self.majority) => return None,
                    Some(_) => {
                        for (member, answer) in answers {
                            after.answers[usize::from(*member)].get_or_insert(*answer);
                        }
                        after.waiting[instance].remove(0);
                        after.phases[instance] = InstancePhase::Idle;
                    }
                }
            }
            InstancePhase::Dead => return None,
        }
        Some(after)
    }

    /// Returns the state after a crash of the instance. Requests without an answer go to the other instance.
    fn crash(&self, instance: usize) -> Option<Self> {
        if self.crashes == 0 || self.phases[instance] == InstancePhase::Dead {
            return None;
        }
        let mut after = Self { crashes: self.crashes - 1, ..self.clone() };
        after.phases[instance] = InstancePhase::Dead;
        let left = std::mem::take(&mut after.waiting[instance]);
        after.waiting[1 - instance].extend(left);
        Some(after)
    }

    /// Describes a fault of the state, if it has one.
    fn fault(&self) -> Option<String> {
        let firm: Vec<ModelRecord> = Self::stored(&self.log[..usize::from(self.majority)]).collect();
        for answer in self.answers.iter().flatten() {
            let holds = match answer {
                ModelAnswer::Stored(record) => firm.contains(record),
                ModelAnswer::Skipped(original) => firm.iter().any(|record| record.seq == *original),
            };
            if !holds {
                return Some(format!("{answer:?} was answered and is not true"));
            }
        }
        let records: Vec<ModelRecord> = Self::stored(&self.log).collect();
        if records.iter().filter(|record| record.original.is_none()).count() > 1 {
            return Some("two originals".into());
        }
        if !records.is_sorted_by(|one, other| one.seq < other.seq) {
            return Some("a lower seq was committed after a higher one".into());
        }
        let mut members: Vec<u8> = records.iter().map(|record| record.member).collect();
        members.sort_unstable();
        members.dedup();
        (members.len() < records.len()).then(|| "a record is stored twice".into())
    }
}

/// Searches all states. Returns their number, or a fault.
fn search(scene: &ModelScene) -> Result<usize, String> {
    let start = ModelState {
        log: Vec::new(),
        majority: 0,
        phases: [InstancePhase::Idle, InstancePhase::Idle],
        waiting: scene.batches.clone(),
        answers: [None; MEMBERS],
        transactions: 0,
        crashes: scene.crashes,
        elections: scene.elections,
    };
    let sent: HashSet<u8> = scene.batches.iter().flatten().flatten().copied().collect();
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    let mut ended = 0_usize;
    while let Some(state) = open.pop() {
        if let Some(fault) = state.fault() {
            return Err(fault);
        }
        let next = state.next(scene);
        if state.waiting.iter().all(Vec::is_empty) && state.answers.iter().flatten().count() == sent.len() {
            ended += 1;
        }
        // A state without a next step has only idle or crashed instances.
        assert!(
            !next.is_empty() || state.phases.iter().all(|p| matches!(p, InstancePhase::Dead | InstancePhase::Idle)),
            "{state:?}"
        );
        open.extend(next.into_iter().filter(|state| seen.insert(state.clone())));
    }
    assert!(ended > 0, "no order of steps answers all requests");
    Ok(seen.len())
}

fn scene() -> ModelScene {
    ModelScene {
        rules: StoreRules::default(),
        batches: [vec![vec![0, 1]], vec![vec![2, 3]]],
        skips: [false; MEMBERS],
        crashes: 1,
        elections: 1,
    }
}

#[test]
fn exactly_one_of_matching_records_is_original_in_every_order_of_steps() {
    let scenes = [
        scene(),
        ModelScene { skips: [false, true, false, true], ..scene() },
        ModelScene { skips: [true; MEMBERS], ..scene() },
        // One record is sent to both instances, and again after its answer.
        ModelScene { batches: [vec![vec![0, 1]], vec![vec![0, 2], vec![3, 0]]], ..scene() },
        ModelScene {
            batches: [vec![vec![0], vec![1]], vec![vec![2], vec![3]]],
            skips: [false, true, true, false],
            ..scene()
        },
    ];
    for (at, scene) in scenes.iter().enumerate() {
        let states = search(scene).unwrap_or_else(|fault| panic!("scene {at}: {fault}"));
        assert!(states > 100, "scene {at}: {states}");
    }
}

#[test]
fn without_any_one_rule_the_search_finds_a_fault() {
    let all = StoreRules::default();
    let skipping =
        ModelScene { batches: [vec![vec![0]], vec![vec![1]]], skips: [false, true, false, false], ..scene() };
    for (without, rules, scene) in [
        ("the latch", StoreRules { latch: false, ..all }, scene()),
        ("the order in a batch", StoreRules { in_order: false, ..all }, scene()),
        (
            "the majority, for stored records",
            StoreRules { confirmed: false, ..all },
            ModelScene { crashes: 0, ..scene() },
        ),
        ("the majority, for skipped records", StoreRules { confirmed: false, ..all }, skipping),
    ] {
        assert!(search(&ModelScene { rules, ..scene }).is_err(), "no fault without {without}");
    }
}
