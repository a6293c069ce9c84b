//! Writes a matter as an order: the form with its names, and the text that the desk adds around it.
//!
//! The result is a pure function of the seeds. The name in a slot depends only on the matter and the name of the slot, so that other words
//! never change a name or a number.

use jiff::civil::Date;

use super::super::calendar::day_before;
use super::super::grammar::{alternatives, clock_time, detail as amount, money, person};
use super::super::rng::RandomStream;
use super::super::words::STEMS;
use super::boilerplate::{
    CHASES, DESKS, ENQUIRY_CHASES, ENQUIRY_DESKS, ENQUIRY_TITLES, PLACE_REMARKS, REMARKS, SLIPS, TITLES,
};
use super::forms::{OrderForm, form};
use super::names::{NameSlot, OrderName, plain};
use super::plan::OrderMatter;
use super::resubmit::ResubmitEdit;

/// A matter with its slots filled.
#[derive(Clone, Debug)]
pub(super) struct FilledMatter {
    pub(super) matter: OrderMatter,
    pub(super) form: &'static OrderForm,
    /// The names in the order of the form's slots.
    names: Vec<OrderName>,
    /// The district of the first name: always the same for the same name.
    district: OrderName,
    seed: u64,
}

impl FilledMatter {
    /// Fills the slots of `matter` in the plan with this `seed`. In a family, every matter except the first has at least one name of its
    /// own.
    pub(super) fn new(matter: OrderMatter, seed: u64) -> Self {
        let form = form(matter.form);
        let slots = form.slots;
        let free = slots.iter().filter(|slot| **slot != NameSlot::Chased).count();
        let own = RandomStream::of(&[seed, matter.first, 42]).below(free);
        let filler = SlotFiller { matter: &matter, form, seed, own };
        let names: Vec<OrderName> = (0..slots.len()).map(|n| filler.fill(n)).collect();
        let place: Vec<u64> = names[0].full.chars().map(u64::from).collect();
        Self {
            matter,
            form,
            district: NameSlot::District.fill(RandomStream::of(&place).next(), false, &[]),
            names,
            seed,
        }
    }

    /// Returns the differences from `other` on the same form, each once; none if both concern the same matter.
    pub(super) fn signs(&self, other: &Self) -> Vec<&'static str> {
        let both = self.form.slots.iter().zip(self.names.iter().zip(&other.names));
        let differing = both.filter(|(_, (own, theirs))| own != theirs).map(|(slot, _)| slot.sign());
        let signs: std::collections::BTreeSet<_> = differing.collect();
        signs.into_iter().collect()
    }

    /// Returns the random numbers of a matter, a family or an order for one purpose.
    fn stream(&self, of: u64, purpose: u64) -> RandomStream {
        RandomStream::of(&[self.seed, of, purpose])
    }

    fn name(&self, slot: NameSlot) -> &OrderName {
        let own = self.form.slots.iter().position(|own| *own == slot);
        own.map_or(&self.district, |at| &self.names[at])
    }

    /// Returns the district without its city.
    pub(super) fn district(&self) -> &str {
        &self.district.short
    }

    /// Returns the office as the order names it: a town has a government, not the office of a street.
    fn local(&self, office: &'static str) -> &'static str {
        let town = self.town();
        match office {
            "街道办事处" | "镇人民政府" if town.ends_with('乡') => "乡人民政府",
            "街道办事处" if town.ends_with('镇') => "镇人民政府",
            _ => office,
        }
    }

    /// Returns the town of the first name; empty if the name has none.
    fn town(&self) -> &str {
        let OrderName { full, short } = &self.names[0];
        match self.form.slots[0] {
            NameSlot::Village => full.strip_suffix(short.as_str()).unwrap_or_default(),
            NameSlot::Town => full,
            _ => "",
        }
    }

    /// Returns the unit that handles the matter: the office with its district, and with its town if it is the office of a town.
    pub(super) fn unit(&self, office: &str) -> String {
        let district = &self.district.short;
        if !office.starts_with("街道") && !office.starts_with('镇') {
            return format!("{district}{office}");
        }
        let town = self.town();
        if !town.is_empty() {
            let office = if town.ends_with("街道") { "办事处" } else { "人民政府" };
            return format!("{district}{town}{office}");
        }
        let place: Vec<u64> = self.names[0].full.chars().map(u64::from).collect();
        format!("{district}{}{office}", RandomStream::of(&place).pick(STEMS))
    }

    /// Returns the text of the order `item` about this matter. The original has no edits.
    pub(super) fn tell(&self, item: u64, edits: &[ResubmitEdit], call: &OrderCall) -> OrderText {
        let mut teller = OrderTeller::new(self, item, edits, call);
        let form = self.form;
        let titles = if form.enquiry { ENQUIRY_TITLES } else { TITLES };
        let mut title = String::new();
        let mut content = String::new();
        let titled = teller.pick(titles);
        teller.expand(titled, &mut title);
        let (_, body) = teller.fact;
        let (head, tail) = teller.desk;
        let remarks = teller.remarks();
        for part in [head, body].into_iter().chain(remarks).chain([tail]) {
            teller.expand(part, &mut content);
        }
        if edits.contains(&ResubmitEdit::Slips) {
            content = slipped(&content, &mut teller.rng);
        }
        OrderText { title, content, office: teller.office() }
    }
}

/// Chooses the names in the slots of a matter.
struct SlotFiller<'a> {
    matter: &'a OrderMatter,
    form: &'static OrderForm,
    seed: u64,
    /// The slot that always has another name than in the family.
    own: usize,
}

impl SlotFiller<'_> {
    fn is_changed(&self, n: usize) -> bool {
        n == self.own
            || self.form.slots[n] == NameSlot::Chased
            || RandomStream::of(&[self.seed, self.matter.first, n as u64, 43]).chance(40)
    }

    fn fill(&self, n: usize) -> OrderName {
        let OrderMatter { first, family, .. } = *self.matter;
        let is_changed = self.is_changed(n);
        if self.form.slots[n] == NameSlot::Question {
            // Another position in the list is taken, so that two matters of a family never ask the same question by chance.
            let shift = if is_changed { (first - family) as usize } else { 0 };
            let questions = self.form.questions;
            let base = RandomStream::of(&[self.seed, family, 53]).below(questions.len());
            return plain(questions[(base + shift) % questions.len()].to_owned());
        }
        // A name that many matters have in common must not be the only name that identifies a matter.
        let popular = self.form.slots.iter().enumerate().any(|(m, other)| m != n && other.tells());
        let of = if is_changed { first } else { family };
        let source = RandomStream::of(&[self.seed, of, n as u64, 44]).next();
        self.form.slots[n].fill(source, popular, self.form.trades())
    }
}

/// The text of an order.
pub(super) struct OrderText {
    pub(super) title: String,
    pub(super) content: String,
    /// The office to which the order is sent.
    pub(super) office: &'static str,
}

/// The circumstances of an order.
#[derive(Clone, Debug)]
pub(super) struct OrderCall {
    /// The day of the first order about the matter.
    pub(super) told: Date,
    /// The day of this order.
    pub(super) received: Date,
    /// The name of the caller; empty if it is not known.
    pub(super) caller: String,
}

/// One operator who writes one order.
struct OrderTeller<'a> {
    filled: &'a FilledMatter,
    /// The sources of words. Each source decides a given percentage of the choices; the last source that decides has priority.
    voices: [(RandomStream, usize); 3],
    desk: (&'static str, &'static str),
    /// The subject and the text.
    fact: (&'static str, &'static str),
    /// The seed of details.
    details: u64,
    call: OrderCall,
    /// Percentage of mentions that are shortened.
    shortened: usize,
    /// The seed and the number of remarks.
    remarks: (u64, usize),
    rng: RandomStream,
}

impl<'a> OrderTeller<'a> {
    fn new(filled: &'a FilledMatter, item: u64, edits: &[ResubmitEdit], call: &OrderCall) -> Self {
        let OrderMatter { first, family, .. } = filled.matter;
        let mut habits = filled.stream(first, 45);
        let [words, desk, details, remarks, fact] =
            [40, 50, 80, 90, 30].map(|percent| if habits.chance(percent) { first } else { family });
        let desk = if edits.contains(&ResubmitEdit::Desk) { item } else { desk };
        let is_chased = edits.contains(&ResubmitEdit::Chased);
        let received = if edits.is_empty() { call.told } else { call.received };
        let remarks = filled.stream(remarks, 48).next();
        let remarked = [0, 0, 0, 0, 1, 1, 2][RandomStream::of(&[remarks]).below(7)];
        let facts = filled.form.facts;
        Self {
            filled,
            voices: [
                (filled.stream(family, 46), 100),
                (filled.stream(first, 46), if words == first { 100 } else { 10 }),
                (filled.stream(item, 46), if edits.contains(&ResubmitEdit::Words) { 30 } else { 0 }),
            ],
            desk: desk_of(filled.form, filled.stream(desk, 49).next(), is_chased),
            fact: facts[RandomStream::of(&[filled.stream(fact, 52).next()]).below(facts.len())],
            details: filled.stream(details, 50).next(),
            call: OrderCall { received, ..call.clone() },
            shortened: if edits.contains(&ResubmitEdit::Shortened) { 80 } else { 0 },
            remarks: (remarks, remarked + usize::from(edits.contains(&ResubmitEdit::Added))),
            rng: filled.stream(item, 47),
        }
    }

    fn pick(&mut self, items: &[&'static str]) -> &'static str {
        items[self.choose(items.len())]
    }

    fn choose(&mut self, count: usize) -> usize {
        let mut chosen = 0;
        for (voice, percent) in &mut self.voices {
            let draw = voice.below(count);
            if voice.chance(*percent) {
                chosen = draw;
            }
        }
        chosen
    }

    /// Returns the additional remarks, in this order. Questions have none.
    fn remarks(&self) -> Vec<&'static str> {
        let (seed, count) = self.remarks;
        let mut remarks = REMARKS.to_vec();
        if self.filled.form.at_place() {
            remarks.extend(PLACE_REMARKS);
        }
        RandomStream::of(&[seed, 51]).shuffle(&mut remarks);
        remarks.truncate(if self.filled.form.enquiry { 0 } else { count });
        remarks
    }

    fn expand(&mut self, template: &str, out: &mut String) {
        let mut rest = template;
        while let Some(at) = rest.find(['[', '{']) {
            out.push_str(&rest[..at]);
            let inner = &rest[at + 1..];
            if rest.as_bytes()[at] == b'{' {
                let end = inner.find('}').unwrap_or(inner.len());
                self.slot(&inner[..end], out);
                rest = inner.get(end + 1..).unwrap_or("");
            } else {
                let (alternatives, after) = alternatives(inner);
                let chosen = self.choose(alternatives.len());
                self.expand(alternatives[chosen], out);
                rest = after;
            }
        }
        out.push_str(rest);
    }

    fn slot(&mut self, name: &str, out: &mut String) {
        if let Some(slot) = NameSlot::named(name) {
            let name = self.filled.name(slot);
            out.push_str(if self.rng.chance(self.shortened) { &name.short } else { &name.full });
            return;
        }
        if name == "题" {
            return self.expand(self.fact.0, out);
        }
        let mut rng = RandomStream::of(&[self.details, slot_number(name)]);
        match name {
            "局" => out.push_str(self.filled.local(self.office())),
            "来电人" if self.call.caller.is_empty() => out.push_str("姓名不详"),
            "来电人" => out.push_str(&self.call.caller),
            "当日" => out.push_str(&month_and_day(self.call.received)),
            "前日" => {
                let days = rng.between(1, 2) as u64;
                out.push_str(&day_before(self.call.received, days, &mut rng));
            }
            "日期" => {
                let days = rng.between(3, 40) as u64;
                out.push_str(&day_before(self.call.told, days, &mut rng));
            }
            _ => detail(name, &mut rng, out),
        }
    }

    /// Returns the office to which the order is sent.
    fn office(&self) -> &'static str {
        let offices: Vec<&'static str> = self.filled.form.offices.split('|').collect();
        offices[RandomStream::of(&[self.details, slot_number("局")]).below(offices.len())]
    }
}

fn month_and_day(date: Date) -> String {
    format!("{}月{}日", date.month(), date.day())
}

/// Returns the habit of the desk that takes the order. Some desks take more orders than others.
fn desk_of(form: &OrderForm, seed: u64, chased: bool) -> (&'static str, &'static str) {
    let mut rng = RandomStream::of(&[seed]);
    let desks = match (chased, form.enquiry) {
        (true, true) => return ENQUIRY_CHASES[rng.below(ENQUIRY_CHASES.len())],
        (true, false) => return CHASES[rng.below(CHASES.len())],
        (false, true) => ENQUIRY_DESKS,
        (false, false) => DESKS,
    };
    desks[rng.below(desks.len()).min(rng.below(desks.len()))]
}

/// Returns a number for the name of a slot.
fn slot_number(name: &str) -> u64 {
    name.bytes().fold(0, |number, byte| number << 8 | u64::from(byte))
}

/// Writes a detail of an order that does not distinguish matters.
fn detail(name: &str, rng: &mut RandomStream, out: &mut String) {
    match name {
        "时限" => {
            out.push_str(rng.pick(&["1个工作日", "2个工作日", "3个工作日", "24小时", "48小时", "2小时", "当日"]));
        }
        "称呼" => person(rng, out),
        "钟点" => clock_time(rng, out),
        "深夜" => {
            let hour = rng.pick(&["晚上10点", "晚上11点", "凌晨1点", "凌晨2点", "凌晨3点", "半夜12点"]);
            out.push_str(&format!("{hour}{}", rng.pick(&["", "半", "多"])));
        }
        "钱" => money(rng, out),
        "万元" => amount("万钱", rng, out),
        "车费" => out.push_str(&rng.between(23, 180).to_string()),
        "几条" => out.push_str(rng.pick(&["两条", "3条", "4条", "一条"])),
        "等候" => out.push_str(&rng.between(25, 70).to_string()),
        "元" => out.push_str(&rng.between(20, 6_800).to_string()),
        "几" => out.push_str(&rng.between(1, 4).to_string()),
        "数" => out.push_str(&rng.between(2, 19).to_string()),
        "天" => out.push_str(&rng.between(2, 45).to_string()),
        "户" => out.push_str(&rng.between(14, 900).to_string()),
        "岁" => out.push_str(&rng.between(60, 95).to_string()),
        other => out.push_str(&format!("{{{other}}}")),
    }
}

/// Makes one to three typing errors.
fn slipped(text: &str, rng: &mut RandomStream) -> String {
    let mut out = text.to_owned();
    for _ in 0..rng.between(1, 3) {
        let possible: Vec<_> = SLIPS.iter().filter(|(right, _)| out.contains(right)).collect();
        if possible.is_empty() {
            return out;
        }
        let (right, wrong) = possible[rng.below(possible.len())];
        out = out.replacen(right, wrong, 1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::super::calendar::UNTIL;
    use super::super::forms;
    use super::*;

    fn call() -> OrderCall {
        OrderCall { told: UNTIL, received: UNTIL, caller: String::new() }
    }

    fn matters() -> impl Iterator<Item = FilledMatter> {
        (0..forms::count()).flat_map(|form| {
            (0..20).map(move |n| FilledMatter::new(OrderMatter { first: n * 64 + 1, size: 1, family: n * 64, form }, 9))
        })
    }

    #[test]
    fn every_template_is_well_formed_and_names_only_known_slots() {
        let edits: [&[ResubmitEdit]; 4] = [
            &[],
            &[ResubmitEdit::Desk, ResubmitEdit::Words],
            &[ResubmitEdit::Chased, ResubmitEdit::Added],
            &[ResubmitEdit::Shortened, ResubmitEdit::Slips],
        ];
        for filled in matters() {
            for (item, edits) in (0..).zip(edits.iter().cycle().take(40)) {
                let OrderText { title, content, .. } = filled.tell(item, edits, &call());
                let marks = ['[', ']', '{', '}', '|'];
                assert!(!title.contains(marks) && !content.contains(marks), "{title} / {content}");
            }
        }
    }

    fn named(template: &str) -> Vec<NameSlot> {
        let names = template.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        names.filter_map(NameSlot::named).filter(|slot| *slot != NameSlot::District).collect()
    }

    #[test]
    fn every_text_of_a_form_names_all_its_slots_and_no_others() {
        for form in (0..forms::count()).map(form) {
            for (subject, body) in form.facts {
                assert!(form.slots.iter().all(|slot| named(body).contains(slot)), "{}: {body}", form.name);
                let known = named(body).into_iter().chain(named(subject)).all(|slot| form.slots.contains(&slot));
                assert!(
                    known && form.slots.contains(&NameSlot::Question) != form.questions.is_empty(),
                    "{}",
                    form.name
                );
            }
        }
    }

    #[test]
    fn rewording_and_slips_keep_every_number_of_a_matter() {
        let plates = matters().filter(|filled| filled.form.name == "parked_car");
        for filled in plates {
            let plate = &filled.name(NameSlot::Plate).full;
            for item in 0..20 {
                let edits = [ResubmitEdit::Words, ResubmitEdit::Desk, ResubmitEdit::Slips, ResubmitEdit::Chased];
                let content = filled.tell(item, &edits, &call()).content;
                assert!(content.contains(plate.as_str()), "{content} lacks {plate}");
            }
        }
    }

    #[test]
    fn siblings_differ_in_a_slot_and_a_matter_from_itself_in_none() {
        for filled in matters() {
            let OrderMatter { family, form, .. } = filled.matter;
            let head = FilledMatter::new(OrderMatter { first: family, size: 1, family, form }, 9);
            assert!(filled.signs(&filled).is_empty());
            assert!(!filled.signs(&head).is_empty(), "{}", filled.form.name);
        }
    }
}
