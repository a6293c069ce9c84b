//! Charts as SVG, written directly: lines or named points, labelled axes from 0 to 1, and a legend. Valid XML without scripts and fonts.

use std::fmt::Write as _;

/// A named line of points. Both coordinates are from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotLine {
    /// The name in the legend.
    pub name: String,
    /// The points, in drawing order.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
pub(super) const LEFT: f64 = 60.0;
pub(super) const TOP: f64 = 40.0;
pub(super) const PLOT_WIDTH: f64 = 460.0;
pub(super) const PLOT_HEIGHT: f64 = 320.0;
/// Colours that people with red-green colour blindness can also distinguish.
pub(super) const COLOURS: &[&str] = &["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// Returns a chart of `lines`. On each line one point is marked.
pub fn chart(title: &str, x_label: &str, y_label: &str, lines: &[(PlotLine, (f64, f64))]) -> String {
    let mut svg = begin(title, lines.iter().map(|(line, _)| &*line.name));
    axes(&mut svg, x_label, y_label);
    for (number, (line, marked)) in lines.iter().enumerate() {
        draw(&mut svg, number, line);
        let (x, y) = place(*marked);
        let colour = COLOURS[number % COLOURS.len()];
        push(&mut svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>\n"));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Begins a picture that has room for `names` next to the chart.
pub(super) fn begin<'a>(title: &str, names: impl Iterator<Item = &'a str>) -> String {
    // A Han character is as wide as the font is high; other characters have about half of this width.
    let width = names
        .map(|name: &str| name.chars().map(|c| if c.is_ascii() { 7.0 } else { 12.0 }).sum::<f64>())
        .fold(0.0, f64::max);
    let width = (LEFT + PLOT_WIDTH + 42.0 + width).max(WIDTH);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{HEIGHT}\" viewBox=\"0 0 {width} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escape(title)
    );
    text(&mut svg, (LEFT, 22.0), "font-size=\"15\"", title);
    svg
}

/// Returns a chart of named points: numbered dots, with their names next to the chart.
pub fn scatter(title: &str, x_label: &str, y_label: &str, points: &[(String, (f64, f64))]) -> String {
    let mut svg = begin(title, points.iter().map(|(name, _)| &**name));
    axes(&mut svg, x_label, y_label);
    for (number, (name, at)) in points.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let label = (number + 1).to_string();
        if at.0.is_finite() && at.1.is_finite() {
            numbered_dot(&mut svg, place(*at), colour, &label);
        }
        let x = LEFT + PLOT_WIDTH + 22.0;
        let y = TOP + 8.0 + 19.0 * number as f64;
        numbered_dot(&mut svg, (x, y), colour, &label);
        text(&mut svg, (x + 14.0, y + 4.0), "", name);
    }
    svg.push_str("</svg>\n");
    svg
}

fn numbered_dot(svg: &mut String, at: (f64, f64), colour: &str, label: &str) {
    let (x, y) = at;
    let fill = format!("fill=\"{colour}\" fill-opacity=\"0.75\"");
    push(svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" {fill}/>\n"));
    text(svg, (x, y + 3.5), "text-anchor=\"middle\" font-size=\"10\" fill=\"#fff\"", label);
}

fn place(point: (f64, f64)) -> (f64, f64) {
    let (x, y) = point;
    (LEFT + x.clamp(0.0, 1.0) * PLOT_WIDTH, TOP + (1.0 - y.clamp(0.0, 1.0)) * PLOT_HEIGHT)
}

fn axes(svg: &mut String, x_label: &str, y_label: &str) {
    for tick in 0..=10 {
        let at = f64::from(tick) / 10.0;
        for (from, to) in [((at, 0.0), (at, 1.0)), ((0.0, at), (1.0, at))] {
            let (x1, y1) = place(from);
            let (x2, y2) = place(to);
            let colour = if tick == 0 { "#333" } else { "#ddd" };
            push(svg, format_args!("<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{colour}\"/>\n"));
        }
        let (x, bottom) = place((at, 0.0));
        let (left, y) = place((0.0, at));
        text(svg, (x, bottom + 16.0), "text-anchor=\"middle\"", &format!("{at:.1}"));
        text(svg, (left - 6.0, y + 4.0), "text-anchor=\"end\"", &format!("{at:.1}"));
    }
    let (x, y) = place((0.5, 0.0));
    text(svg, (x, y + 36.0), "text-anchor=\"middle\"", x_label);
    let (_, middle) = place((0.0, 0.5));
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 16 {middle:.1})\"");
    text(svg, (16.0, middle), &turned, y_label);
}

fn draw(svg: &mut String, number: usize, line: &PlotLine) {
    let colour = COLOURS[number % COLOURS.len()];
    let points: Vec<_> =
        line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).map(|p| place(*p)).collect();
    let points: String = points.iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
    push(
        svg,
        format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n",
            points.trim_end()
        ),
    );
    legend(svg, number, &line.name);
}

/// Writes the name of line `number` next to the chart.
pub(super) fn legend(svg: &mut String, number: usize, name: &str) {
    let colour = COLOURS[number % COLOURS.len()];
    let y = TOP + 14.0 + 20.0 * number as f64;
    let x = LEFT + PLOT_WIDTH + 14.0;
    push(svg, format_args!("<rect x=\"{x}\" y=\"{:.1}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>\n", y - 6.0));
    text(svg, (x + 20.0, y), "", name);
}

pub(super) fn text(svg: &mut String, point: (f64, f64), attributes: &str, words: &str) {
    let (x, y) = point;
    push(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>\n", escape(words)));
}

pub(super) fn push(svg: &mut String, piece: std::fmt::Arguments<'_>) {
    svg.write_fmt(piece).expect("a string takes all that is written to it");
}

fn escape(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags_balance(svg: &str) -> bool {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let name: String = tag.chars().take_while(|c| c.is_alphanumeric() || *c == '/').collect();
            let body = tag.split('>').next().unwrap();
            if let Some(closed) = name.strip_prefix('/') {
                if open.pop().as_deref() != Some(closed) {
                    return false;
                }
            } else if !body.ends_with('/') {
                open.push(name);
            }
        }
        open.is_empty()
    }

    #[test]
    fn a_chart_is_well_formed_and_labelled() {
        let line =
            PlotLine { name: "a < b & c".into(), points: vec![(0.0, 1.0), (0.5, 0.25), (f64::NAN, 1.0), (9.0, -1.0)] };
        let svg = chart("quality", "threshold", "share", &[(line, (0.5, 1.0))]);
        assert!(tags_balance(&svg) && svg.contains("<circle cx=\"290.0\" cy=\"40.0\" r=\"5\""));
        assert!(svg.contains(">threshold</text>") && svg.contains(">share</text>") && svg.contains("a &lt; b &amp; c"));
        let svg_of_points =
            scatter("a & b", "recall", "precision", &[("x<y".into(), (0.5, 1.0)), ("z".into(), (f64::NAN, 0.0))]);
        assert!(tags_balance(&svg_of_points) && svg_of_points.matches("<circle").count() == 3, "one without a place");
        assert!(svg_of_points.contains(">x&lt;y</text>") && svg_of_points.contains("cx=\"290.0\" cy=\"40.0\""));
        let long = scatter("", "x", "y", &[("教育".repeat(10), (0.0, 0.0))]);
        assert!(svg.contains("width=\"640\"") && long.contains("width=\"802\""), "wide enough for the names");
        assert!(!svg.contains("NaN") && svg.contains("points=\"60.0,40.0 290.0,280.0 520.0,360.0\""));
    }
}
