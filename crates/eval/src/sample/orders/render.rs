//! Writes a matter as an order: the form with its names, and the text that the desk adds around it.
//!
//! The result is a pure function of the seeds. The name in a slot depends only on the matter and the name of the slot, so that other words
//! never change a name or a number.

use jiff::ToSpan as _;
use jiff::civil::Date;

use super::super::calendar::day_before;
use super::super::grammar::{TemplatePart, clock_time, detail as amount, money, parts, person};
use super::super::rng::RandomStream;
use super::super::wording::{FoundWord, next_word};
use super::super::words::{SHOPS, STEMS};
use super::boilerplate::{
    CHASES, ENQUIRY_CHASES, ENQUIRY_HEADS, ENQUIRY_TAILS, ENQUIRY_TITLES, HEADS, PLACE_REMARKS, REMARKS, SLIPS, TAILS,
    TITLES,
};
use super::forms::{OrderForm, form};
use super::names::{NameSlot, OrderName, plain, stem};
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
    /// Fills the slots of `matter` in the plan with this `seed`. In a family, every matter except the first has at least one name that the
    /// first matter does not have.
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

    /// Returns the name of the office in the order: a town has a government and not the office of a street, and long names are shortened.
    fn local(&self, office: &'static str) -> &'static str {
        let town = self.town();
        match office {
            "街道办事处" | "镇人民政府" if town.ends_with('乡') => "乡人民政府",
            "街道办事处" if town.ends_with('镇') => "镇人民政府",
            "人力资源和社会保障局" => "人社局",
            "住房和城乡建设局" => "住建局",
            "市场监督管理局" => "市监局",
            "消费者权益保护委员会" => "消保委",
            _ => office,
        }
    }

    /// Returns the town of the first name; empty if the name contains no town.
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
        teller.apart(|teller| teller.expand(titled, &mut title));
        let (_, body) = teller.fact;
        let (head, tail) = teller.desk;
        let remarks = teller.remarks();
        for part in [head, body] {
            teller.apart(|teller| teller.expand(part, &mut content));
        }
        // The end is written before the remarks, so that the number of remarks does not change its words.
        let mut end = String::new();
        teller.apart(|teller| teller.expand(tail, &mut end));
        for remark in remarks {
            teller.apart(|teller| teller.expand(remark, &mut content));
        }
        content.push_str(&end);
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
    /// The slot whose name always differs from the name in the family.
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
    /// True while a word is replaced, so that its replacement is not replaced.
    fixed: bool,
    /// The seed and the number of remarks.
    remarks: (u64, usize),
    rng: RandomStream,
}

impl<'a> OrderTeller<'a> {
    fn new(filled: &'a FilledMatter, item: u64, edits: &[ResubmitEdit], call: &OrderCall) -> Self {
        let OrderMatter { first, family, .. } = filled.matter;
        let mut habits = filled.stream(first, 45);
        let [words, desk, details, remarks, fact] =
            [20, 30, 30, 50, 15].map(|percent| if habits.chance(percent) { first } else { family });
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
            fixed: false,
            remarks: (remarks, remarked + usize::from(edits.contains(&ResubmitEdit::Added))),
            rng: filled.stream(item, 47),
        }
    }

    fn pick(&mut self, items: &[&'static str]) -> &'static str {
        items[self.choose(items.len())]
    }

    /// Calls `tell` with separate sources of choices. The later choices therefore do not depend on the number of choices that `tell` makes:
    /// another word at one place of an order does not change the rest.
    fn apart(&mut self, tell: impl FnOnce(&mut Self)) {
        let own = self.voices.each_mut().map(|(voice, percent)| (RandomStream::of(&[voice.next()]), *percent));
        let outer = std::mem::replace(&mut self.voices, own);
        tell(self);
        self.voices = outer;
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

    /// Returns the additional remarks, in this order. Questions have no remarks.
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
        for part in parts(template) {
            match part {
                TemplatePart::Literal(text) => self.literal(text, out),
                TemplatePart::Slot(name) => self.slot(name, out),
                TemplatePart::Choice(choices) => {
                    let chosen = self.choose(choices.len());
                    self.apart(|teller| teller.expand(choices[chosen], out));
                }
            }
        }
    }

    /// Writes a part of a template without slots, with some words replaced.
    fn literal(&mut self, text: &str, out: &mut String) {
        if self.fixed {
            return out.push_str(text);
        }
        let mut rest = text;
        while let Some(FoundWord { start, end, texts }) = next_word(rest, false) {
            out.push_str(&rest[..start]);
            let chosen = self.choose(texts.len());
            self.fixed = true;
            self.apart(|teller| teller.expand(texts[chosen], out));
            self.fixed = false;
            rest = &rest[end..];
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
            "时限" => out.push_str(&time_limit(self.call.received, &mut rng)),
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

/// Returns the day until which an office has to act, in words.
fn time_limit(received: Date, rng: &mut RandomStream) -> String {
    match rng.below(5) {
        0 => format!("{}个工作日内", rng.between(1, 10)),
        1 => format!("{}小时内", rng.between(1, 12) * 6),
        2 => rng.pick(&["当日", "今日下班前", "本周内", "一周内"]).to_owned(),
        _ => {
            let date = received.saturating_add((rng.between(1, 15) as i64).days());
            format!("{}{}前", month_and_day(date), rng.pick(&["", "", "中午", "下班"]))
        }
    }
}

/// Writes a place as the surroundings of a shop.
fn beside(rng: &mut RandomStream) -> String {
    let shop = format!("{}{}", stem(rng), rng.pick(SHOPS));
    match rng.below(5) {
        0 => format!("{shop}对面"),
        1 => format!("靠{shop}一侧"),
        2 => format!("{shop}往{}{}米", rng.pick(&["东", "西", "南", "北"]), rng.between(2, 40) * 10),
        3 => format!("距{shop}{}米处", rng.between(2, 40) * 5),
        _ => format!("{shop}{}", rng.pick(&["旁", "门前", "后面", "路口"])),
    }
}

fn month_and_day(date: Date) -> String {
    format!("{}月{}日", date.month(), date.day())
}

/// Returns the beginning and the end that the desk writes.
fn desk_of(form: &OrderForm, seed: u64, chased: bool) -> (&'static str, &'static str) {
    let mut rng = RandomStream::of(&[seed]);
    match (chased, form.enquiry) {
        (true, true) => ENQUIRY_CHASES[rng.below(ENQUIRY_CHASES.len())],
        (true, false) => CHASES[rng.below(CHASES.len())],
        (false, true) => (rng.pick(ENQUIRY_HEADS), rng.pick(ENQUIRY_TAILS)),
        (false, false) => (rng.pick(HEADS), rng.pick(TAILS)),
    }
}

/// Returns a number for the name of a slot.
fn slot_number(name: &str) -> u64 {
    name.bytes().fold(0, |number, byte| number << 8 | u64::from(byte))
}

/// Writes a detail of an order that does not distinguish matters.
fn detail(name: &str, rng: &mut RandomStream, out: &mut String) {
    match name {
        "称呼" => person(rng, out),
        "钟点" | "来时" => clock_time(rng, out),
        "旁" => out.push_str(&beside(rng)),
        "晚点" => amount("晚上点", rng, out),
        "线数" => out.push_str(&rng.between(1, 499).to_string()),
        "栋数" => out.push_str(&rng.between(2, 28).to_string()),
        "米" => out.push_str(&(rng.between(3, 60) * 5).to_string()),
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
        other => amount(other, rng, out),
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
