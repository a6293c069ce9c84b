//! The type of forms, and the list of all forms.

use super::names::NameSlot;
use super::{forms_service, forms_street};

/// A form that operators fill in.
#[derive(Debug)]
pub(super) struct OrderForm {
    /// The name, which records have as their label.
    pub(super) name: &'static str,
    /// The slots that distinguish the matters on this form. The district belongs to the name in the first slot.
    pub(super) slots: &'static [NameSlot],
    /// The possible values of `{问}`; empty if the form has no such slot.
    pub(super) questions: &'static [&'static str],
    /// The offices that handle the matter, separated by `|`.
    pub(super) offices: &'static str,
    /// The possible events: the subject, for titles, and the text.
    pub(super) facts: &'static [(&'static str, &'static str)],
    /// True if the form asks a question and does not report a fault.
    pub(super) enquiry: bool,
}

impl OrderForm {
    /// Returns the trades of the companies on this form.
    pub(super) fn trades(&self) -> &'static [&'static str] {
        match self.name {
            "fees" => &["物业", "物业", "物业"],
            "refund" => &["健身", "餐饮", "美容", "家居", "摄影", "驾校"],
            "site_noise" => &["建设", "建工", "路桥", "市政工程"],
            _ => &["建设", "劳务", "装饰", "电子", "食品", "制衣", "餐饮", "物流"],
        }
    }

    /// True if the matters on this form are visible at a place.
    pub(super) fn at_place(&self) -> bool {
        let visible = ["城乡建设", "物业管理", "噪声扰民", "水电气热", "环境保护"].contains(&self.category());
        visible || matches!(self.name, "parked_car" | "road_parking" | "shared_bikes")
    }

    /// Returns the category of the matters on this form.
    pub(super) fn category(&self) -> &'static str {
        match self.name {
            "street_light" | "road_damage" => "城乡建设",
            "parked_car" | "road_parking" | "bus" | "taxi" | "shared_bikes" => "交通运输",
            "site_noise" | "dog" => "噪声扰民",
            "water_cut" | "power_cut" => "水电气热",
            "garbage" | "river" => "环境保护",
            "elevator" | "fees" | "illegal_building" => "物业管理",
            "refund" => "商贸旅游",
            "wages" => "劳动人事",
            "school" | "enquiry_school_area" => "教育文体",
            "land" => "国土资源",
            "benefit" => "社会保障",
            _ => "政务服务",
        }
    }
}

const FORMS: [&[OrderForm]; 2] = [forms_street::FORMS, forms_service::FORMS];

pub(super) fn count() -> usize {
    FORMS.iter().map(|forms| forms.len()).sum()
}

/// Returns the form at `index`, which must be below [`count`].
pub(super) fn form(index: usize) -> &'static OrderForm {
    let [street, service] = FORMS;
    street.get(index).unwrap_or_else(|| &service[index - street.len()])
}
