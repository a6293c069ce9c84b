//! The protocol of commits, without a database: every order of steps of two instances with a few registrations that all match one
//! another, crashes of instances and elections that roll back included, is gone through one by one.
//!
//! What the database is taken to do: a transaction reads the state at its beginning; it conflicts where it writes what another has
//! written since, or is writing; a commit is seen by others at once, and lost by an election until a majority has it. What the store
//! is taken to do stands in `doppel-store-mongodb`'s modules `latch` and `commit`; each rule can be left out here, and the search then
//! finds what goes wrong.

use std::collections::HashSet;

/// Registrations. All match one another.
const MEMBERS: usize = 4;
const INSTANCES: usize = 2;

/// The rules of the store, all of them kept if `default`.
#[derive(Clone, Copy)]
struct Rules {
    /// Every transaction writes the collection's document.
    latch: bool,
    /// An answer waits until a majority has what it rests on, also where nothing was stored.
    confirmed: bool,
    /// A member is judged against those before it in its batch.
    in_order: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { latch: true, confirmed: true, in_order: true }
    }
}

/// Who registers what, and what may go wrong.
#[derive(Clone)]
struct Scene {
    rules: Rules,
    /// Batches of members, by instance. A member may be sent twice.
    batches: [Vec<Vec<u8>>; INSTANCES],
    /// Whether a member is skipped if it is a duplicate.
    skips: [bool; MEMBERS],
    crashes: u8,
    elections: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    member: u8,
    seq: u8,
    original: Option<u8>,
}

/// A committed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Commit {
    /// Differs from every other.
    transaction: u8,
    /// The counter after it.
    last: u8,
    records: Vec<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Stored(Record),
    /// Names an original.
    Skipped(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// Reads this many commits.
    Begun(u8),
    /// Has written the collection's document.
    Latched(u8),
    /// What it will answer once it knows of the commit.
    Committing(u8, Vec<(u8, Answer)>),
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    log: Vec<Commit>,
    /// So many commits a majority has.
    majority: u8,
    phases: [Phase; INSTANCES],
    waiting: [Vec<Vec<u8>>; INSTANCES],
    answers: [Option<Answer>; MEMBERS],
    transactions: u8,
    crashes: u8,
    elections: u8,
}

impl State {
    fn holder(&self) -> Option<usize> {
        self.phases.iter().position(|phase| matches!(phase, Phase::Latched(_)))
    }

    fn stored(log: &[Commit]) -> impl Iterator<Item = Record> {
        log.iter().flat_map(|commit| commit.records.iter().copied())
    }

    /// The commit of the batch that `instance` is at: what is judged is read as of the beginning, which the latch keeps true.
    fn commit(&mut self, scene: &Scene, instance: usize, read: u8) {
        let batch = self.waiting[instance][0].clone();
        let seen = &self.log[..usize::from(read)];
        let counter = seen.last().map_or(0, |commit| commit.last);
        let (mut seq, mut records, mut answers) = (counter, Vec::new(), Vec::new());
        for member in batch {
            seq += 1;
            let before = |record: &Record| record.member == member;
            if let Some(record) = Self::stored(seen).chain(records.iter().copied()).find(before) {
                answers.push((member, Answer::Stored(record)));
                continue;
            }
            let batch_mates = records.iter().copied().filter(|_| scene.rules.in_order);
            let original = Self::stored(seen).chain(batch_mates).map(|record: Record| record.seq).min();
            match original {
                Some(original) if scene.skips[usize::from(member)] => answers.push((member, Answer::Skipped(original))),
                _ => {
                    let record = Record { member, seq, original };
                    records.push(record);
                    answers.push((member, Answer::Stored(record)));
                }
            }
        }
        self.transactions += 1;
        let transaction = self.transactions;
        self.log.push(Commit { transaction, last: seq, records });
        self.phases[instance] = Phase::Committing(transaction, answers);
    }

    /// All states that one step leads to.
    fn next(&self, scene: &Scene) -> Vec<Self> {
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
                if matches!(phase, Phase::Begun(_) | Phase::Latched(_)) {
                    *phase = Phase::Idle;
                }
            }
            all.push(after);
        }
        all
    }

    fn step(&self, scene: &Scene, instance: usize) -> Option<Self> {
        let mut after = self.clone();
        match &self.phases[instance] {
            Phase::Idle => {
                self.waiting[instance].first()?;
                after.phases[instance] = Phase::Begun(self.log.len() as u8);
            }
            Phase::Begun(read) if scene.rules.latch => {
                let conflicts = self.holder().is_some() || self.log.len() > usize::from(*read);
                after.phases[instance] = if conflicts { Phase::Idle } else { Phase::Latched(*read) };
            }
            Phase::Begun(read) | Phase::Latched(read) => after.commit(scene, instance, *read),
            Phase::Committing(transaction, answers) => {
                match self.log.iter().position(|commit| commit.transaction == *transaction) {
                    // An election has undone it: begin again.
                    None => after.phases[instance] = Phase::Idle,
                    Some(at) if scene.rules.confirmed && at >= usize::from(self.majority) => return None,
                    Some(_) => {
                        for (member, answer) in answers {
                            after.answers[usize::from(*member)].get_or_insert(*answer);
                        }
                        after.waiting[instance].remove(0);
                        after.phases[instance] = Phase::Idle;
                    }
                }
            }
            Phase::Dead => return None,
        }
        Some(after)
    }

    /// The instance dies; whoever has no answer asks the other.
    fn crash(&self, instance: usize) -> Option<Self> {
        if self.crashes == 0 || self.phases[instance] == Phase::Dead {
            return None;
        }
        let mut after = Self { crashes: self.crashes - 1, ..self.clone() };
        after.phases[instance] = Phase::Dead;
        let left = std::mem::take(&mut after.waiting[instance]);
        after.waiting[1 - instance].extend(left);
        Some(after)
    }

    /// What is wrong with a state, whichever it is.
    fn fault(&self) -> Option<String> {
        let firm: Vec<Record> = Self::stored(&self.log[..usize::from(self.majority)]).collect();
        for answer in self.answers.iter().flatten() {
            let holds = match answer {
                Answer::Stored(record) => firm.contains(record),
                Answer::Skipped(original) => firm.iter().any(|record| record.seq == *original),
            };
            if !holds {
                return Some(format!("{answer:?} was answered and is not so"));
            }
        }
        let records: Vec<Record> = Self::stored(&self.log).collect();
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

/// Goes through all states; how many there are.
fn search(scene: &Scene) -> Result<usize, String> {
    let start = State {
        log: Vec::new(),
        majority: 0,
        phases: [Phase::Idle, Phase::Idle],
        waiting: scene.batches.clone(),
        answers: [None; MEMBERS],
        transactions: 0,
        crashes: scene.crashes,
        elections: scene.elections,
    };
    let sent: HashSet<u8> = scene.batches.iter().flatten().flatten().copied().collect();
    let (mut seen, mut open, mut ended) = (HashSet::from([start.clone()]), vec![start], 0_usize);
    while let Some(state) = open.pop() {
        if let Some(fault) = state.fault() {
            return Err(fault);
        }
        let next = state.next(scene);
        if state.waiting.iter().all(Vec::is_empty) && state.answers.iter().flatten().count() == sent.len() {
            ended += 1;
        }
        // No instance is left to serve anybody, or somebody can go on.
        assert!(!next.is_empty() || state.phases.iter().all(|p| matches!(p, Phase::Dead | Phase::Idle)), "{state:?}");
        open.extend(next.into_iter().filter(|state| seen.insert(state.clone())));
    }
    assert!(ended > 0, "no order of steps answers everybody");
    Ok(seen.len())
}

fn scene() -> Scene {
    Scene {
        rules: Rules::default(),
        batches: [vec![vec![0, 1]], vec![vec![2, 3]]],
        skips: [false; MEMBERS],
        crashes: 1,
        elections: 1,
    }
}

#[test]
fn of_records_that_match_exactly_one_is_original_in_every_order_of_steps() {
    let scenes = [
        scene(),
        Scene { skips: [false, true, false, true], ..scene() },
        Scene { skips: [true; MEMBERS], ..scene() },
        // One record is sent to both, and again after its answer.
        Scene { batches: [vec![vec![0, 1]], vec![vec![0, 2], vec![3, 0]]], ..scene() },
        Scene {
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
fn without_any_one_rule_something_goes_wrong() {
    let all = Rules::default();
    let skipping = Scene { batches: [vec![vec![0]], vec![vec![1]]], skips: [false, true, false, false], ..scene() };
    for (without, rules, scene) in [
        ("the latch", Rules { latch: false, ..all }, scene()),
        ("the order in a batch", Rules { in_order: false, ..all }, scene()),
        ("the majority, for what is stored", Rules { confirmed: false, ..all }, Scene { crashes: 0, ..scene() }),
        ("the majority, for what is skipped", Rules { confirmed: false, ..all }, skipping),
    ] {
        assert!(search(&Scene { rules, ..scene }).is_err(), "nothing goes wrong without {without}");
    }
}
