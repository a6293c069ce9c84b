//! Charts of figures with units: lines over a linear or a logarithmic scale. They use the elements of [`svg`](super::svg) and are valid XML
//! without scripts.

use super::svg::{COLOURS, LEFT, PLOT_HEIGHT, PLOT_WIDTH, PlotLine, TOP, begin, legend, push, text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    /// A linear scale from 0.
    Linear,
    /// A scale by powers of ten. Values that are not above 0 are left out.
    Logarithmic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChartAxis<'a> {
    /// The quantity, with its unit.
    pub label: &'a str,
    pub scale: AxisScale,
}

impl<'a> ChartAxis<'a> {
    /// Creates an axis with a linear scale.
    pub fn linear(label: &'a str) -> Self {
        Self { label, scale: AxisScale::Linear }
    }

    /// Creates an axis with a logarithmic scale.
    pub fn logarithmic(label: &'a str) -> Self {
        Self { label, scale: AxisScale::Logarithmic }
    }
}

/// An axis whose range fits its values.
struct FittedAxis {
    scale: AxisScale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

/// Returns a chart of `lines`. Every point is a dot; the dots of a line are joined in their order.
pub fn plot(title: &str, x: ChartAxis<'_>, y: ChartAxis<'_>, lines: &[PlotLine]) -> String {
    let points = lines.iter().flat_map(|line| &line.points);
    let (across, up): (Vec<f64>, Vec<f64>) = points.copied().unzip();
    let fitted_x = FittedAxis::to(x.scale, &across);
    let fitted_y = FittedAxis::to(y.scale, &up);
    let mut svg = begin(title, lines.iter().map(|line| &*line.name));
    axes(&mut svg, (&fitted_x, x.label), (&fitted_y, y.label));
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let shown = line.points.iter().filter(|(x, y)| fitted_x.shows(*x) && fitted_y.shows(*y));
        let places: Vec<_> = shown.map(|(x, y)| (fitted_x.across(*x), fitted_y.up(*y))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"");
        push(&mut svg, format_args!("<polyline {stroke} points=\"{}\"/>\n", path.join(" ")));
        for (x, y) in places {
            push(&mut svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>\n"));
        }
        legend(&mut svg, number, &line.name);
    }
    svg.push_str("</svg>\n");
    svg
}

fn axes(svg: &mut String, horizontal: (&FittedAxis, &str), vertical: (&FittedAxis, &str)) {
    let (x, x_label) = horizontal;
    let (y, y_label) = vertical;
    let right = LEFT + PLOT_WIDTH;
    let bottom = TOP + PLOT_HEIGHT;
    for tick in &x.ticks {
        let at = x.across(*tick);
        push(svg, format_args!("<path d=\"M{at:.1} {TOP}L{at:.1} {bottom}\" stroke=\"#ddd\"/>\n"));
        text(svg, (at, bottom + 16.0), "text-anchor=\"middle\"", &shown(*tick));
    }
    for tick in &y.ticks {
        let at = y.up(*tick);
        push(svg, format_args!("<path d=\"M{LEFT} {at:.1}L{right} {at:.1}\" stroke=\"#ddd\"/>\n"));
        text(svg, (LEFT - 5.0, at + 4.0), "text-anchor=\"end\" font-size=\"10\"", &shown(*tick));
    }
    push(
        svg,
        format_args!("<path d=\"M{LEFT} {TOP}L{LEFT} {bottom}L{right} {bottom}\" fill=\"none\" stroke=\"#333\"/>\n"),
    );
    text(svg, (LEFT + PLOT_WIDTH / 2.0, bottom + 36.0), "text-anchor=\"middle\"", x_label);
    let middle = TOP + PLOT_HEIGHT / 2.0;
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 14 {middle:.1})\"");
    text(svg, (14.0, middle), &turned, y_label);
}

impl FittedAxis {
    fn to(scale: AxisScale, values: &[f64]) -> Self {
        let usable = values.iter().copied().filter(|v| v.is_finite() && (scale == AxisScale::Linear || *v > 0.0));
        let (least, most) = usable.fold((f64::INFINITY, 0.0), |(low, high), v| (low.min(v), f64::max(high, v)));
        let most = if most > 0.0 { most } else { 1.0 };
        match scale {
            AxisScale::Linear => {
                let step = step_of(most / 5.0);
                let count = (most / step).ceil().max(1.0);
                let ticks = (0..=count as u32).map(|tick| f64::from(tick) * step).collect();
                Self { scale, low: 0.0, high: count * step, ticks }
            }
            AxisScale::Logarithmic => {
                let low = least.min(most).log10().floor();
                let high = most.log10().ceil().max(low + 1.0);
                let ticks = (low as i32..=high as i32).map(|power| 10_f64.powi(power)).collect();
                Self { scale, low, high, ticks }
            }
        }
    }

    fn shows(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == AxisScale::Linear || value > 0.0)
    }

    fn share(&self, value: f64) -> f64 {
        let value = if self.scale == AxisScale::Linear { value } else { value.log10() };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn across(&self, value: f64) -> f64 {
        LEFT + self.share(value) * PLOT_WIDTH
    }

    fn up(&self, value: f64) -> f64 {
        TOP + (1.0 - self.share(value)) * PLOT_HEIGHT
    }
}

/// Returns the smallest of 1, 2, 5, 10, 20 … (and their tenths) that is not below `least`.
fn step_of(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= least).unwrap_or(power * 10.0)
}

fn shown(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", v / 1e6),
        v if v >= 1e4 => format!("{} k", v / 1e3),
        // Ticks are round numbers. Digits after the sixth come from rounding in the computer.
        v => format!("{}", (v * 1e6).round() / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> PlotLine {
        PlotLine { name: "a & b".into(), points: points.to_vec() }
    }

    #[test]
    fn a_linear_axis_begins_at_nought_and_has_round_ticks() {
        let fitted = FittedAxis::to(AxisScale::Linear, &[3.0, 27.0]);
        assert_eq!((fitted.ticks, fitted.high), (vec![0.0, 10.0, 20.0, 30.0], 30.0));
        assert_eq!(FittedAxis::to(AxisScale::Linear, &[]).high, 1.0);
    }

    #[test]
    fn a_logarithmic_axis_spans_whole_powers_and_leaves_nought_out() {
        let fitted = FittedAxis::to(AxisScale::Logarithmic, &[0.0, 0.02, 30.0]);
        assert_eq!((fitted.low, fitted.high), (-2.0, 2.0));
        assert!(!fitted.shows(0.0) && fitted.shows(0.02));
        let axis = ChartAxis::logarithmic("x < y");
        let points = [(1.0, 0.0), (10.0, 5.0), (f64::NAN, 1.0)];
        let svg = plot("t", axis, axis, &[line(&points)]);
        assert!(svg.matches("<circle").count() == 1 && !svg.contains("NaN") && svg.contains("x &lt; y"));
        assert!(svg.contains(">a &amp; b</text>") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn ticks_are_written_short() {
        assert_eq!([0.02, 500.0, 30_000.0, 2e6].map(shown), ["0.02", "500", "30 k", "2 M"]);
    }
}
